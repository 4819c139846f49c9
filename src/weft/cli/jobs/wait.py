"""`weft wait`: until a job runs or has ended; the exit status tells how."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING

import click

from weft.api.backend import JobKey
from weft.cli.completion.candidates import jobs_in
from weft.cli.exit_status import Exit, of_job
from weft.cli.options import output_option
from weft.cli.terminal.screen import harmless, print_json, say
from weft.cli.terminal.watching import detaching
from weft.cli.worlds.place import Place, place_options
from weft.cli.worlds.world import World, located
from weft.model.errors import SpecError

if TYPE_CHECKING:
    from weft.view.jobs import JobDetail

SCHEMA = "weft-waited/1"


def seconds(context: click.Context, option: click.Parameter, value: str | None) -> float | None:
    """`90`, `90s`, `10m`, `1h30m`."""
    from weft.spec.quantity import duration_seconds

    if value is None:
        return None
    try:
        return float(duration_seconds(f"{value}s" if value.isdecimal() else value))
    except SpecError as error:
        raise click.BadParameter(f"{error}; {error.hint}", context, option) from None


@click.command()
@click.argument("job", shell_complete=jobs_in())
@click.option(
    "--for",
    "goal",
    type=click.Choice(["running", "finished"]),
    default="finished",
    show_default=True,
    help="What to wait for.",
)
@click.option(
    "--timeout",
    metavar="DURATION",
    callback=seconds,
    help="Give up after this, such as 90s or 2h.",
)
@place_options
@output_option()
def wait(*, job: str, goal: str, timeout: float | None, place: Place, output: str) -> None:
    """Wait until JOB runs or has ended, and leave with a status that tells how it went.

    0 it succeeded (or runs, with --for running), 1 it failed, 3 it was cancelled or deleted, 4 the
    time was up. A job that does not exist is an error at once.
    """

    async def work(world: World) -> Exit:
        key = located(job, world)
        async with aclosing(world.changes(key)) as changes:
            return await _reached(changes, key, goal, timeout, output)

    with detaching(f"the job goes on; {place.command('wait', job)} waits again"):
        raise click.exceptions.Exit(place.run(work))


async def _reached(
    changes: "AsyncIterator[JobDetail | None]",
    key: JobKey,
    goal: str,
    timeout: float | None,
    output: str,
) -> Exit:
    seen: list[JobDetail] = []
    try:
        async with asyncio.timeout(timeout):
            last = await _follow(changes, goal, seen)
    except TimeoutError:
        return _tell(key, seen[-1].line.state if seen else "", Exit.TIMEOUT, output)
    state = "Deleted" if last is None else last.line.state
    return _tell(key, state, of_job(None if last is None else state), output)


async def _follow(
    changes: "AsyncIterator[JobDetail | None]", goal: str, seen: "list[JobDetail]"
) -> "JobDetail | None":
    """The job when it is there; a new state or reason on the way is talked about."""
    async for detail in changes:
        if detail is None or detail.line.finished:
            return detail
        if goal == "running" and detail.line.state == "Running":
            return detail
        if not seen or _standing(seen[-1]) != _standing(detail):
            say(
                harmless(": ".join(filter(None, (detail.line.state or "New", detail.line.message))))
            )
        seen.append(detail)
    return None


def _standing(detail: "JobDetail") -> tuple[str, str | None]:
    return detail.line.state, detail.line.reason


def _tell(key: JobKey, state: str, status: Exit, output: str) -> Exit:
    if output == "json":
        print_json({"schema": SCHEMA, "job": str(key), "state": state, "status": int(status)})
    elif status is Exit.TIMEOUT:
        say(f"time is up: {key} is {state or 'New'}")
    else:
        click.echo(f"{key} {state}")
    return status
