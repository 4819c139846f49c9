"""Part d: a peer dies, a peer hangs, the whole job is told to go; nothing that counted is lost.

Peers are killed at any moment of a step, now the first of the members, now the last. What counts is
the time from the signal to the next step that the survivor commits without the peer. A stopped peer
is only found by waiting, so its time has the limit in it. A drain is measured from SIGTERM to the
end of the agent's process, with its checkpoint written; the job that is started again from it must
go on with the very next step, and from the same bits.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from benchmarks.row import Row, exactly
from benchmarks.runtime.figures import each_held, only_full, spread
from benchmarks.runtime.job import FULL, SHORT, Job, Size, Step, running, say, scratch
from benchmarks.runtime.switches import SETTLED_STEPS

WIDTH = 2
KILLS, SHORT_KILLS = 10, 1
STOPS = 3
DRAINS, SHORT_DRAINS = 6, 1
HANG_SECONDS = 3.0
KILL_BAR_SECONDS = 2.0
STOP_BAR_SECONDS = HANG_SECONDS + 2.0
DRAIN_BAR_SECONDS = 1.5
STEPS_BETWEEN = 6
DRAINED = 143


@dataclass(slots=True)
class Losses:
    """Seconds of each recovery, and what was lost or done twice on the way."""

    kills: list[float] = field(default_factory=list)
    stops: list[float] = field(default_factory=list)
    breaks: int = 0


@dataclass(slots=True)
class Drains:
    """Seconds of each drain, its exit codes, the steps lost by each resume, and equal bits."""

    seconds: list[float] = field(default_factory=list)
    taken: list[float] = field(default_factory=list)
    """Seconds to the snapshot at the step's border."""
    codes: list[int] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    same_bits: bool = False


def rows(*, short: bool) -> Iterator[Row]:
    """Losses, then drains."""
    kills, stops = (SHORT_KILLS, 0) if short else (KILLS, STOPS)
    with scratch() as folder:
        losses = measure_losses(folder / "losses", SHORT if short else FULL, kills, stops)
        yield from _loss_rows(losses, judged=not short)
        if short:
            yield from only_full("d", "a peer that hangs")
            drained = measure_drains(folder / "drains", SHORT, SHORT_DRAINS, workers=1)
        else:
            drained = measure_drains(folder / "drains", FULL, DRAINS, workers=WIDTH)
        yield from _drain_rows(drained, judged=not short)


def measure_losses(folder: Path, size: Size, kills: int, stops: int) -> Losses:
    """One job that loses a peer again and again, and each time grows back to its width."""
    found = Losses()
    draw = random.Random(1)
    limit = ("--hang", f"{HANG_SECONDS:g}")
    known = 0
    with running(folder, size, workers=WIDTH, agent=limit) as job:
        for number in range(kills + stops):
            say(f"loss {number + 1} of {kills + stops}")
            job.steady(WIDTH, since=known)
            job.go_on(STEPS_BETWEEN)
            known, victim = len(job.events), _members(job)[number % WIDTH]
            time.sleep(draw.random() * _step_seconds(job))
            if number < kills:
                found.kills.append(_lose(job, victim, signal.SIGKILL))
            else:
                found.stops.append(_lose(job, victim, signal.SIGSTOP))
        job.drain()
    found.breaks = _breaks(job.steps, size.batch)
    return found


def _members(job: Job) -> tuple[int, ...]:
    """Who has committed one of the last steps."""
    newest = job.newest()
    return tuple(sorted({s.worker for s in job.steps if s.step >= newest - 1 and s.stepped}))


def _lose(job: Job, victim: int, number: int) -> float:
    """Seconds from the signal to a step that others have committed in a later epoch."""
    job.look()
    known, epoch = len(job.steps), max(step.epoch for step in job.steps)
    sent = job.signal_worker(victim, number)
    first = job.until_step(
        "a step of the survivor",
        lambda s: s.stepped and s.worker != victim and s.epoch > epoch,
        since=known,
    )
    return first.ended - sent


def measure_drains(folder: Path, size: Size, count: int, *, workers: int) -> Drains:
    """Start, drain, start again from the checkpoint, and so on.

    The last drain is there to compare bits: its workers make a digest before they end, so its time
    is not counted unless it is the only one.
    """
    found = Drains()
    folder.mkdir()
    vault = ("--checkpoints", str(folder / "vault"))
    before: Job | None = None
    for number in range(count + 1):
        say(f"start {number + 1} of {count + 1}")
        ends = ("--ends",) if number >= count - 1 else ()
        again = (*vault, "--incarnation", str(number + 1))
        with running(folder / f"{number}", size, *ends, workers=workers, agent=again) as job:
            job.steady(workers)
            job.go_on(STEPS_BETWEEN)
            if before is not None:
                _compare(found, before, job)
            if number < count:
                seconds = job.drain()
                found.codes.append(job.process.returncode)
                if not ends or count == 1:
                    found.seconds.append(seconds)
                    found.taken.append(_to_snapshot(job))
        before = job
    return found


def _compare(found: Drains, before: Job, after: Job) -> None:
    first = min(step.step for step in after.steps if step.stepped)
    found.lost.append(before.newest() + 1 - first)
    last = {tale["final"] for tale in before.tales if "final" in tale}
    loaded = {tale["loaded"] for tale in after.tales if "loaded" in tale}
    found.same_bits = len(last) == 1 and last == loaded


def _to_snapshot(job: Job) -> float:
    told, saved = job.named("draining"), job.named("saved")
    return float(saved[-1]["seconds"] - told[0]["seconds"])


def _step_seconds(job: Job) -> float:
    steps = [step.seconds for step in job.steps[-SETTLED_STEPS:]]
    return max(steps, default=0.1)


def _breaks(steps: list[Step], batch: int) -> int:
    """Where a worker's steps do not follow each other, or together use more than their samples.

    Fewer is no sign of a loss: who was killed behind the vote has had no time to tell of the step.
    """
    by_worker: dict[int, list[int]] = {}
    used: Counter[int] = Counter()
    for step in steps:
        if step.stepped:
            by_worker.setdefault(step.worker, []).append(step.step)
            used[step.step] += step.samples
    gaps = sum(after != before + 1 for own in by_worker.values() for before, after in pairwise(own))
    return gaps + sum(samples > batch for samples in used.values())


def _loss_rows(losses: Losses, *, judged: bool) -> Iterator[Row]:
    name = "d: kill -9 to the survivor's next step"
    yield each_held(name, losses.kills, "s", KILL_BAR_SECONDS, judged=judged)
    if judged:
        name = f"d: SIGSTOP to the survivor's next step, with a limit of {HANG_SECONDS:g} s"
        yield each_held(name, losses.stops, "s", STOP_BAR_SECONDS)
    times = len(losses.kills) + len(losses.stops)
    yield exactly(f"d: … steps left out or done twice in {times} losses", losses.breaks, "", 0)


def _drain_rows(drained: Drains, *, judged: bool) -> Iterator[Row]:
    times = len(drained.codes)
    yield each_held("d: SIGTERM to drained", drained.seconds, "s", DRAIN_BAR_SECONDS, judged=judged)
    yield spread("d: … of it until the snapshot is taken", drained.taken, "s")
    yield exactly("d: … exit code 143", drained.codes.count(DRAINED), "times", times)
    yield exactly(f"d: … steps lost in {times} new starts", sum(drained.lost), "steps", 0)
    yield exactly("d: … the state goes on from the same bits", int(drained.same_bits), "", 1)
