"""`weft submit`: a job file becomes a job, after a look at what it asks for."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from weft.cli.completion.candidates import files
from weft.cli.jobs.job_source import name_for, read_job
from weft.cli.jobs.job_words import Spec, facts, several
from weft.cli.jobs.process_words import processes_of, say_processes
from weft.cli.options import output_option
from weft.cli.terminal.confirm import confirmed
from weft.cli.terminal.screen import cell, fact_table, harmless, print_json, say, stderr
from weft.cli.worlds.place import DRY_RUN, YES, Place, place_options
from weft.cli.worlds.world import World

if TYPE_CHECKING:
    from rich.table import Table

    from weft.view.jobs import JobDetail
    from weft.view.queues import QueueLine

SCHEMA = "weft-submitted/1"


@click.command()
@click.argument("file", shell_complete=files)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Another value for a field, such as resources.gpus=8; may be repeated.",
)
@click.option("--name", help="Another name.  [default: the one in FILE, or FILE's own]")
@DRY_RUN
@YES
@place_options
@output_option()
def submit(
    *,
    file: str,
    overrides: tuple[str, ...],
    name: str | None,
    dry_run: bool,
    yes: bool,
    place: Place,
    output: str,
) -> None:
    """Submit the job that FILE describes; - reads it from standard input.

    It is checked here first and shown; on a terminal you are asked before anything is sent. With
    --dry-run the exact object is printed, and the server is asked whether it would take it.
    """
    job_file = read_job(file, overrides)
    named = name_for(file, job_file, name)

    async def work(world: World) -> None:
        spec = job_file.spec
        if dry_run:
            _print_document(world.document(spec, named), output)
            await say_remarks(world, spec)
            say_processes(world, [spec])
            await world.submit(spec, named, dry_run=True)
            say("dry run: the server would take this job; nothing was created")
            return
        if output != "json":
            await _show_plan(world, spec, named)
        if not yes:
            confirmed("submit it?", otherwise="nothing was submitted", default=True)
        _tell(await world.submit(spec, named, dry_run=False), place, output)

    place.run(work)


def plan_of(world: World, spec: Spec, name: str, queue: "QueueLine | None") -> "Table":
    """What would be submitted, and how its queue stands."""
    rows = {"job": name, world.whose: world.namespace, **facts(spec)}
    if told := processes_of(world, spec):
        rows["processes"] = told
    if queue is not None:
        rows["queue now"] = _standing(queue)
    return fact_table(rows)


def remarks_on(world: World, spec: Spec, queues: "tuple[QueueLine, ...]") -> list[str]:
    """What would make it wait for ever, as far as the queues tell."""
    name, namespace = spec.get("queue", "default"), world.namespace
    queue = next((each for each in queues if each.name == name), None)
    if queue is None:
        known = ", ".join(each.name for each in queues if each.serves(namespace))
        return [f"there is no queue '{name}'" + (f"; there are {known}" if known else "")]
    if not queue.serves(namespace):
        return [f"queue '{name}' takes no jobs of {world.whose} '{namespace}'"]
    return [f"queue '{name}' is not ready: {queue.message}"] if queue.ready is False else []


async def _show_plan(world: World, spec: Spec, name: str) -> None:
    """Whoever may not read queues sees the plan without them."""
    queues = await world.visible_queues()
    if queues is None:
        stderr().print(plan_of(world, spec, name, None))
        return
    wanted = spec.get("queue", "default")
    queue = next((each for each in queues if each.name == wanted), None)
    stderr().print(plan_of(world, spec, name, queue))
    for remark in remarks_on(world, spec, queues):
        say(f"warning: {remark}")


async def say_remarks(world: World, spec: Spec) -> None:
    queues = await world.visible_queues()
    for remark in remarks_on(world, spec, queues) if queues is not None else ():
        say(f"warning: {harmless(remark)}")


def _standing(queue: "QueueLine") -> str:
    used = f"{several(queue.used or 0, 'GPU')} used"
    promised = [] if queue.guaranteed is None else [f"{queue.guaranteed} guaranteed"]
    promised += [] if queue.limit is None else [f"at most {queue.limit}"]
    return ", ".join([used, *promised, f"{several(queue.waiting or 0, 'job')} waiting"])


def _print_document(job: Mapping[str, Any], output: str) -> None:
    if output == "json":
        print_json(job)
        return
    import yaml

    click.echo(yaml.safe_dump(dict(job), sort_keys=False, allow_unicode=True), nl=False)


def _tell(made: "JobDetail", place: Place, output: str) -> None:
    """The job on standard output; what to do next beside it."""
    line = made.line
    if output == "json":
        fields = {"namespace": line.namespace, "name": line.name, "uid": line.uid}
        print_json({"schema": SCHEMA, **fields, "spec": made.spec, "notes": made.notes})
    else:
        click.echo(f"{line.namespace}/{line.name}")
    for noted in made.notes:
        say(f"note: {harmless(noted)}")
    nexts = {
        place.command("why", line.name): "why it waits",
        place.command("show", line.name): "what it holds, and its workers",
        place.command("logs", "-f", line.name): "what it prints, until it ends",
        place.command("cancel", line.name): "end it",
    }
    widest = max(map(len, nexts))
    say("next:")
    for command, purpose in nexts.items():
        say(f"  {command.ljust(widest)}   {cell(purpose)}")
