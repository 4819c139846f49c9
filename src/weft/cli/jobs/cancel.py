"""`weft cancel`: ask for the end of jobs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from weft.api.backend import JobKey
from weft.cli.completion.candidates import jobs_in
from weft.cli.jobs.ls import ACTIVE
from weft.cli.options import output_option
from weft.cli.terminal.confirm import confirmed
from weft.cli.terminal.screen import harmless, print_json, say
from weft.cli.worlds.place import DRY_RUN, YES, Place, place_options
from weft.cli.worlds.world import World, located

if TYPE_CHECKING:
    from weft.view.jobs import JobLine

SCHEMA = "weft-cancelled/1"


@click.command()
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True, shell_complete=jobs_in(*ACTIVE))
@DRY_RUN
@YES
@place_options
@output_option()
def cancel(*, jobs: tuple[str, ...], dry_run: bool, yes: bool, place: Place, output: str) -> None:
    """Ask for the end of each JOB.

    Workers get SIGTERM and the job's grace to save; the job stays in the list as Cancelled. One
    that has ended already is left as it is.
    """

    async def work(world: World) -> None:
        lines = [(await world.detail(located(job, world))).line for job in jobs]
        alive = [line for line in lines if not line.finished]
        for line in lines:
            if line.finished:
                say(f"note: {line.namespace}/{line.name} has ended already: {line.state}")
        if alive and not (yes or dry_run):
            confirmed(f"cancel {_named(alive)}?", otherwise="nothing was cancelled")
        for line in alive:
            await world.cancel(JobKey(line.namespace, line.name), dry_run=dry_run)
        _tell(alive, dry_run, output)

    place.run(work)


def _named(lines: "Sequence[JobLine]") -> str:
    return ", ".join(f"{line.name} ({harmless(line.state) or 'New'})" for line in lines)


def _tell(lines: "Sequence[JobLine]", dry_run: bool, output: str) -> None:
    names = [f"{line.namespace}/{line.name}" for line in lines]
    if output == "json":
        print_json({"schema": SCHEMA, "jobs": names, "dry_run": dry_run})
        return
    for name in names:
        click.echo(name)
    if names:
        say("dry run: nothing was changed" if dry_run else "asked for the end of these jobs")
