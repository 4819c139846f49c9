"""`weft run`: a command becomes a job without a file, and its log is followed to the end."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from weft.cli.exit_status import Exit
from weft.cli.jobs.asked import Asked, asked_options
from weft.cli.jobs.following import Sent, as_sent, follow_all, follow_one, show_table
from weft.cli.jobs.process_words import OPTION, say_processes
from weft.cli.jobs.run_names import name_of, names_for
from weft.cli.jobs.sweep import Point, point_words, points_of, refuse_unused
from weft.cli.options import output_option
from weft.cli.terminal.screen import harmless, print_json, say
from weft.cli.terminal.watching import detaching
from weft.cli.worlds.place import DRY_RUN, Place, place_options
from weft.cli.worlds.world import World
from weft.model.errors import WeftError

if TYPE_CHECKING:
    from weft.spec.job_file import JobFile

SCHEMA = "weft-run/1"
MOST_NAMED = 8


@click.command(context_settings={"allow_interspersed_args": False})
@asked_options
@click.option("--name", help="Of the job.  [default: after the command]")
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    metavar="NAME=V1,V2",
    help="A job for each value, put in place of {NAME}; several make all combinations.",
)
@click.option("-d", "--detach", is_flag=True, help="Submit, and do not follow.")
@DRY_RUN
@place_options
@output_option()
def run(
    *,
    asked: Asked,
    name: str | None,
    sweeps: tuple[str, ...],
    detach: bool,
    dry_run: bool,
    place: Place,
    output: str,
) -> None:
    """Run COMMAND as a job of the present world, and follow what it prints until it ends.

    No file is needed: weft run --gpus 1..2 -- python train.py. One word with spaces is a line for
    /bin/sh. The exit status is the job's: 0 it succeeded, 1 it failed, 3 it was cancelled. Ctrl-C
    leaves it running.

    On this machine it runs in this folder, with this shell's PATH; on a cluster in its image, which
    must hold whatever the command needs.

    A sweep has a job for each point: --sweep lr=1e-3,1e-4 -- python train.py --lr {lr}. Its table
    is shown until all have ended, and the exit status is that of the worst.
    """
    points = points_of(sweeps)
    refuse_unused(points[0], asked.texts)
    jobs = [asked.job(point) for point in points]
    sent: list[Sent] = []

    async def work(world: World) -> Exit:
        names = await _names(world, name, asked.command, points)
        await _check_all(world, jobs, names)
        if dry_run:
            _tell_plan(world, jobs, names, points, output)
            return Exit.OK
        await _submit_all(world, list(zip(jobs, names, points, strict=True)), sent, place)
        if detach:
            show_table(as_sent(sent), output)
            _say_next(sent, place)
            return Exit.OK
        if not sweeps:
            return await follow_one(world, sent[0], output)
        return await follow_all(world, sent, output)

    with detaching(lambda: _goes_on(sent, place)):
        raise click.exceptions.Exit(place.run(work))


async def _names(
    world: World, name: str | None, command: Sequence[str], points: Sequence[Point]
) -> list[str]:
    """A name that somebody gave is taken as it is; another one avoids all that there are."""
    from weft.api.backend import Selection
    from weft.cli.jobs.job_source import checked_name

    if name is not None:
        return [checked_name(each) for each in names_for(name, points, None)]
    there = await world.jobs(Selection(world.namespace))
    return names_for(name_of(command), points, {line.name for line in there.jobs})


async def _check_all(world: World, jobs: "Sequence[JobFile]", names: Sequence[str]) -> None:
    """Nothing is submitted before the world would take all of it."""
    from weft.cli.jobs.submit import say_remarks

    await say_remarks(world, jobs[0].spec)
    say_processes(world, (job.spec for job in jobs), written=OPTION)
    for job, name in zip(jobs, names, strict=True):
        await world.submit(job.spec, name, dry_run=True)


async def _submit_all(
    world: World, wanted: "Sequence[tuple[JobFile, str, Point]]", sent: list[Sent], place: Place
) -> None:
    notes: dict[str, None] = {}
    for job, name, point in wanted:
        try:
            made = await world.submit(job.spec, name, dry_run=False)
        except WeftError:
            if sent:
                say(f"{len(sent)} of {len(wanted)} jobs were submitted: {_cancel(sent, place)}")
            raise
        sent.append(Sent(point, made))
        notes |= dict.fromkeys(made.notes)
    for note in notes:
        say(f"note: {harmless(note)}")


def _tell_plan(
    world: World,
    jobs: "Sequence[JobFile]",
    names: Sequence[str],
    points: Sequence[Point],
    output: str,
) -> None:
    """The exact objects, as `weft submit --dry-run` prints one."""
    documents = [world.document(job.spec, name) for job, name in zip(jobs, names, strict=True)]
    if output == "json":
        print_json({"schema": SCHEMA, "dry_run": True, "jobs": documents})
    else:
        import yaml

        text = yaml.safe_dump_all(map(dict, documents), sort_keys=False, allow_unicode=True)
        click.echo(text, nl=False)
    what = "this job" if len(points) == 1 else f"these {len(points)} jobs"
    say(f"dry run: the server would take {what}; nothing was created")


def _say_next(sent: Sequence[Sent], place: Place) -> None:
    first = sent[0].name
    say(f"next: {place.command('logs', '-f', first)}   {point_words(sent[0].point)}".rstrip())
    say(f"      {_cancel(sent, place)}   ends {'it' if len(sent) == 1 else 'them'}")


def _goes_on(sent: Sequence[Sent], place: Place) -> str:
    if not sent:
        return "nothing was submitted"
    if len(sent) == 1:
        follow = place.command("logs", "-f", sent[0].name)
        return f"the job goes on; {follow} follows it, {_cancel(sent, place)} ends it"
    listing = place.command("ls")
    return f"{len(sent)} jobs go on; {listing} lists them, {_cancel(sent, place)} ends them"


def _cancel(sent: Sequence[Sent], place: Place) -> str:
    if len(sent) > MOST_NAMED:
        return place.command("cancel", "JOB...")
    return place.command("cancel", *(each.name for each in sent))
