"""`weft logs`: what a job's workers print."""

import sys
from contextlib import aclosing
from typing import TYPE_CHECKING

import click

from weft.cli.cluster import Cluster, Place, place_options
from weft.cli.exit_status import Exit, of_job
from weft.cli.screen import harmless, say
from weft.cli.watching import detaching
from weft.model.errors import SpecError

if TYPE_CHECKING:
    from weft.kube.reading.jobs import JobDetail
    from weft.kube.reading.pod_logs import Which
    from weft.kube.reading.workers import WorkerLine


@click.command()
@click.argument("job")
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

    async def work(cluster: Cluster) -> Exit:
        from weft.kube.reading.pod_logs import Which

        which = Which(None if every else frozenset(ranks or {0}), epoch, tail)
        printer = Printer(with_rank=every or len(ranks) > 1)
        if follow:
            return await _follow(cluster, job, which, printer)
        await _once(cluster, job, which, printer)
        return Exit.OK

    with detaching(f"the job goes on; {place.command('logs', '-f', job)} looks again"):
        raise click.exceptions.Exit(place.run(work))


class Printer:
    """Lines to standard output as they come; what a terminal would obey is taken out for one."""

    def __init__(self, *, with_rank: bool) -> None:
        self._with_rank = with_rank
        self._terminal = sys.stdout.isatty()
        self._epochs: dict[int, int] = {}

    def __call__(self, worker: "WorkerLine", line: bytes) -> None:
        before = self._epochs.setdefault(worker.rank, worker.epoch)
        if worker.epoch != before:
            self._epochs[worker.rank] = worker.epoch
            say(f"rank {worker.rank} was placed anew: epoch {worker.epoch}, {worker.node}")
        prefix = f"[{worker.rank}] ".encode() if self._with_rank else b""
        click.echo(prefix + (shown(line) if self._terminal else line))


def shown(line: bytes) -> bytes:
    """A line as a terminal would leave it: what was written over is gone, and no steering."""
    text = line.decode(errors="replace").rstrip("\r").rpartition("\r")[2]
    return harmless(text).encode()


async def _follow(cluster: Cluster, job: str, which: "Which", printer: Printer) -> Exit:
    from weft.kube.reading.pod_logs import follow_job_logs

    last = await follow_job_logs(cluster.api, *cluster.locate(job), which, printer)
    if last is not None and not last.line.finished:
        return Exit.OK
    say(_ending(job, last))
    return of_job(None if last is None else last.line.state)


async def _once(cluster: Cluster, job: str, which: "Which", printer: Printer) -> None:
    from weft.kube.reading.jobs import get_job
    from weft.kube.reading.pod_logs import read_log
    from weft.kube.reading.workers import list_workers

    namespace, name = cluster.locate(job)
    detail = await get_job(cluster.api, namespace, name)
    workers = which.latest(await list_workers(cluster.api, namespace, name, epoch=which.epoch))
    if not workers:
        raise _nothing_to_read(detail, which)
    for worker in workers:
        if not worker.started:
            say(f"rank {worker.rank} has not started: {worker.phase}")
            continue
        async with aclosing(read_log(cluster.api, namespace, worker.pod, tail=which.tail)) as lines:
            async for line in lines:
                printer(worker, line)


def _ending(job: str, last: "JobDetail | None") -> str:
    if last is None:
        return f"{job} was deleted"
    told = f": {harmless(last.line.message)}" if last.line.message else ""
    return f"{job} {last.line.state}{told}"


def _nothing_to_read(detail: "JobDetail", which: "Which") -> SpecError:
    line = detail.line
    if line.finished:
        return SpecError(
            f"the pods of '{line.name}' are gone", hint="keep_on_failure in the job file keeps them"
        )
    if line.waiting:
        hint = f"weft why {line.name} tells why it waits; weft logs -f waits with you"
        return SpecError(f"'{line.name}' has no workers: it is {line.state or 'New'}", hint=hint)
    return SpecError(f"'{line.name}' has no such worker", hint=f"weft show {line.name} lists them")
