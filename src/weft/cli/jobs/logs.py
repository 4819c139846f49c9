"""`weft logs`: what a job's workers print."""

import sys
from contextlib import aclosing
from typing import TYPE_CHECKING

import click

from weft.api.backend import JobKey
from weft.cli.completion.candidates import jobs_in
from weft.cli.exit_status import Exit, of_job
from weft.cli.jobs.job_words import several
from weft.cli.terminal.screen import harmless, say
from weft.cli.terminal.watching import detaching
from weft.cli.worlds.place import Place, place_options
from weft.cli.worlds.world import World, located
from weft.view.logs import Which

if TYPE_CHECKING:
    from weft.view.jobs import JobDetail
    from weft.view.logs import LogLine


@click.command()
@click.argument("job", shell_complete=jobs_in())
@click.option("-f", "--follow", is_flag=True, help="Stay until the job ends, restarts included.")
@click.option(
    "--rank",
    "ranks",
    type=click.IntRange(0),
    multiple=True,
    help="Worker to read, may be repeated.  [default: 0]",
)
@click.option("--all", "every", is_flag=True, help="All workers, each line with its rank.")
@click.option("--epoch", type=click.IntRange(0), help="Placement to read.  [default: the last]")
@click.option("--tail", type=click.IntRange(0), help="Only so many last lines of each worker.")
@place_options
def logs(
    *,
    job: str,
    follow: bool,
    ranks: tuple[int, ...],
    every: bool,
    epoch: int | None,
    tail: int | None,
    place: Place,
) -> None:
    """Print what the workers of JOB print.

    With -f the exit status is the job's: 0 it succeeded, 1 it failed, 3 it was cancelled or
    deleted. On a terminal, sequences that would steer it are left out; into a file or a pipe goes
    every byte.
    """
    if every and ranks:
        raise click.UsageError("--all and --rank exclude each other")

    async def work(world: World) -> Exit:
        which = Which(None if every else frozenset(ranks or {0}), epoch, tail)
        printer = Printer(with_rank=every or len(ranks) > 1)
        if follow:
            return await followed(world, located(job, world), which, printer)
        async with aclosing(world.logs(located(job, world), which)) as lines:
            async for line in lines:
                printer(line)
        for rank in sorted(set(ranks) - printer.ranks):
            say(await _silence(world, job, rank))
        return Exit.OK

    with detaching(f"the job goes on; {place.command('logs', '-f', job)} looks again"):
        raise click.exceptions.Exit(place.run(work))


class Printer:
    """Lines to standard output as they come; what a terminal would obey is taken out for one.

    With `beside` they go to standard error, because the output is somebody else's.
    """

    def __init__(self, *, with_rank: bool, beside: bool = False) -> None:
        self._with_rank = with_rank
        self._beside = beside
        self._terminal = (sys.stderr if beside else sys.stdout).isatty()
        self._epochs: dict[int, int] = {}

    @property
    def ranks(self) -> set[int]:
        """Those that have printed anything."""
        return set(self._epochs)

    def __call__(self, line: "LogLine") -> None:
        before = self._epochs.setdefault(line.rank, line.epoch)
        if line.epoch != before:
            self._epochs[line.rank] = line.epoch
            say(f"rank {line.rank} was placed anew: epoch {line.epoch}, {line.node or 'here'}")
        prefix = f"[{line.rank}] ".encode() if self._with_rank else b""
        text = shown(line.text) if self._terminal else line.text
        click.echo(prefix + text, err=self._beside)


def shown(line: bytes) -> bytes:
    """A line as a terminal would leave it: what was written over is gone, and no steering."""
    text = line.decode(errors="replace").rstrip("\r").rpartition("\r")[2]
    return harmless(text).encode()


async def _silence(world: World, job: str, rank: int) -> str:
    """Why nothing is shown of a worker that somebody asked for."""
    seats = (await world.detail(located(job, world))).seats
    if seats and rank >= len(seats):
        return f"there is no rank {rank}: {job} has {several(len(seats), 'worker')}"
    return f"rank {rank} has printed nothing"


async def followed(world: World, job: JobKey, which: Which, printer: Printer) -> Exit:
    """What it prints until it has ended; the status tells how."""
    last = await world.follow_logs(job, which, printer)
    if last is not None and not last.line.finished:
        return Exit.OK
    say(_ending(job.name, last))
    return of_job(None if last is None else last.line.state)


def _ending(job: str, last: "JobDetail | None") -> str:
    if last is None:
        return f"{job} was deleted"
    told = f": {harmless(last.line.message)}" if last.line.message else ""
    return f"{job} {last.line.state}{told}"
