"""Part a: a worker joins without a stop, beside a stop and restart, beside torchrun's own.

One job goes from one worker to two and back, again and again; worker 0 is there all the time, and
what it waited is defined in `switches`. The same job is then drained with a checkpoint and started
again with two workers, as a scheduler without elasticity does it: from the order to the first step
of the new width. torchrun restarts its workers when a second node comes, and restores no state.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.row import Row, aims_at, at_most, exactly, told
from benchmarks.runtime.figures import MS, held, in_ms, only_full, spread
from benchmarks.runtime.job import FULL, SHORT, Job, Size, running, say, scratch
from benchmarks.runtime.switches import SETTLED_STEPS, Switch, switch_of
from benchmarks.runtime.torchrun import Torchrun, measure_torchrun

JOINS, SHORT_JOINS = 20, 1
RESTARTS, SHORT_RESTARTS = 3, 1
JOIN_BAR_PERCENT, JOIN_AIM_PERCENT = 10.0, 2.0
SHRINK_BAR_MS = 50.0
JOINED_BAR_SECONDS = 2.0
MEGABYTE = 1e6
BYTES_PER_PARAMETER = 12
STAYS = 0
"""The worker that is there all the time."""


@dataclass(frozen=True, slots=True)
class Resized:
    """All joins and shrinks of one job, and the digests of two workers after each join."""

    joins: list[Switch]
    shrinks: list[Switch]
    equal: int


@dataclass(frozen=True, slots=True)
class Restart:
    """Seconds from the order, and from the last step before to the first after."""

    ordered: float
    stood_still: float


def rows(*, short: bool) -> Iterator[Row]:
    """The joins, then what stands beside them."""
    size, judged = (SHORT, False) if short else (FULL, True)
    count = SHORT_JOINS if short else JOINS
    with scratch() as folder:
        resized = measure_joins(folder / "joins", size, count)
        yield told("a: registered state", _megabytes(size), "MB")
        yield exactly("a: joins 1 → 2", len(resized.joins), "joins", count)
        yield exactly("a: … with equal digests of both workers' state", resized.equal, "", count)
        yield from _join_rows(resized, judged=judged)
        restarts = [
            measure_restart(folder / f"restart-{number}", size)
            for number in range(SHORT_RESTARTS if short else RESTARTS)
        ]
        yield from _restart_rows(resized, restarts, judged=judged)
        if short:
            yield from only_full("a", "beside torchrun")
            return
        yield from _torchrun_rows(resized, measure_torchrun(folder / "torchrun", size))


def measure_joins(folder: Path, size: Size, count: int) -> Resized:
    """Grow and shrink so many times, with settled steps between."""
    changes = []
    with running(folder, size, "--digest") as job:
        job.steady(1)
        for number in range(count):
            say(f"join {number + 1} of {count}")
            job.go_on(SETTLED_STEPS)
            grown = job.resize(2)
            job.go_on(SETTLED_STEPS)
            changes.append((grown, job.resize(1)))
        job.go_on(SETTLED_STEPS)
        job.drain()
    steps = [step for step in job.steps if step.worker == STAYS and step.stepped]
    return Resized(
        joins=[switch_of(steps, *grown) for grown, _ in changes],
        shrinks=[switch_of(steps, *shrunk) for _, shrunk in changes],
        equal=_equal_digests(job),
    )


def _equal_digests(job: Job) -> int:
    """How many steps have a digest of two workers, and the same one."""
    found: dict[int, list[str]] = {}
    for tale in job.tales:
        if "digest" in tale:
            found.setdefault(tale["step"], []).append(tale["digest"])
    return sum(len(each) == 2 and len(set(each)) == 1 for each in found.values())  # noqa: PLR2004


def measure_restart(folder: Path, size: Size) -> Restart:
    """Drain with a checkpoint, start anew with two workers from it."""
    say("stop and restart, 1 → 2")
    folder.mkdir()
    vault = ("--checkpoints", str(folder / "vault"))
    with running(folder / "one", size, agent=vault) as before:
        before.steady(1)
        before.go_on(SETTLED_STEPS)
        ordered = before.order("drain")
        before.end()
    again = (*vault, "--incarnation", "2")
    with running(folder / "two", size, workers=2, agent=again) as after:
        first = after.until_step("a step of two", lambda s: s.stepped and s.width == 2)  # noqa: PLR2004
    last = max(step.ended for step in before.steps if step.stepped)
    return Restart(first.ended - ordered, first.ended - last)


def _join_rows(resized: Resized, *, judged: bool) -> Iterator[Row]:
    joins, shrinks = resized.joins, resized.shrinks
    yield spread("a: a step with one worker", in_ms([j.before for j in joins]), "ms")
    yield spread("a: a step with two workers", in_ms([j.after for j in joins]), "ms")
    yield spread("a: training waits for a join", in_ms([j.waited for j in joins]), "ms")
    yield spread("a: … of it for the transfer of state", in_ms([j.exposed for j in joins]), "ms")
    waits = in_ms([s.waited for s in shrinks])
    yield held("a: training waits for a shrink 2 → 1", waits, "ms", SHRINK_BAR_MS, judged=judged)
    ordered = [j.ordered_to_steady for j in joins]
    yield held("a: order to joined", ordered, "s", JOINED_BAR_SECONDS, judged=judged)
    slower = [100 * j.slowdown for j in joins]
    yield spread("a: a step is longer while the newcomer warms up by", slower, "%")
    longer = in_ms([j.calibrating for j in joins])
    yield spread("a: … in the three calibrating steps behind a join by", longer, "ms")


def _restart_rows(resized: Resized, restarts: list[Restart], *, judged: bool) -> Iterator[Row]:
    ordered = [restart.ordered for restart in restarts]
    yield spread("a: stop and restart 1 → 2, order to first step", ordered, "s")
    still = [restart.stood_still for restart in restarts]
    yield spread("a: … in which training stands still", still, "s")
    peer, whole = "stop and restart, s", median(ordered)
    shares = [100 * join.waited / whole for join in resized.joins]
    name = "a: wait for a join / stop and restart"
    if not judged:
        yield spread(name, shares, "%")
        return
    yield at_most(f"{name}, worst", max(shares), "%", JOIN_BAR_PERCENT, peer=peer, peer_value=whole)
    yield aims_at(
        f"{name}, median", median(shares), "%", JOIN_AIM_PERCENT, peer=peer, peer_value=whole
    )


def _torchrun_rows(resized: Resized, found: Torchrun | str) -> Iterator[Row]:
    name = "a: torchrun 1 → 2, without state: training stands still"
    if isinstance(found, str):
        yield told(name, found, "")
        return
    waited = median(join.waited for join in resized.joins)
    yield told(name, found.stood_still, "s", peer="our join, ms", peer_value=MS * waited)
    yield told("a: … second node started to first step", found.started, "s")


def _megabytes(size: Size) -> float:
    parameters = 3 * (size.features**2 + size.features)
    return BYTES_PER_PARAMETER * parameters / MEGABYTE
