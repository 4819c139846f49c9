"""The bare loop of elastic scheduling: a rule over remaining work and curves, and nothing else.

One pool of GPUs, no nodes, no messages, no brain. The rule is asked again at every arrival and
every end, and its widths hold until the next. This is the reference replay of AFS's comparison,
written from its description and sharing no code with Weft's policies: what it finds is what the
brain and its simulated world are held against. A rule is a function from a `Scene` to widths, so a
new one can be tried in seconds:

    result = replay(jobs, gpus, afs_l)
    python -m benchmarks.elastic.bare afs_l optimus
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import process_time

import numpy as np
import numpy.typing as npt

from weft.model.curve import Curve
from weft.model.job import Job

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

HOUR = 3600.0
ROUNDING_SECONDS = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Everything a rule may know of the jobs in the system, in order of arrival.

    `speeds[job, width]` is work per second: 0 on no GPU, flat beyond `widest`. `width` is what a
    job has now and has had since `since`, `attained` its GPU-seconds so far, `changes` how often
    its width has changed.
    """

    now: float
    gpus: int
    remaining: Floats
    speeds: Floats
    widest: Ints
    asked: Ints
    width: Ints
    since: Floats
    submitted: Floats
    total: Floats
    attained: Floats
    changes: Ints
    curve: Ints

    def __len__(self) -> int:
        return len(self.remaining)

    def seconds_on_one(self) -> Floats:
        return self.remaining / self.speeds[:, 1]


Rule = Callable[[Scene], Ints]


@dataclass(frozen=True, slots=True)
class Pauses:
    """How long a job stands still when it starts (also again), and when its width changes."""

    start_seconds: float = 0.0
    resize_seconds: float = 0.0


@dataclass(slots=True)
class Result:
    """Per job in order of arrival; `changes` are of width while running, `starts` from nothing."""

    jct_seconds: Floats
    changes: Ints
    starts: Ints
    rounds: int = 0
    used_gpu_seconds: float = 0.0
    span_seconds: float = 0.0
    rule_cpu_seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def mean_jct_hours(self) -> float:
        return float(self.jct_seconds.mean()) / HOUR

    @property
    def p99_jct_hours(self) -> float:
        return float(np.quantile(self.jct_seconds, 0.99)) / HOUR

    @property
    def changes_per_job(self) -> float:
        return float(self.changes.mean())

    @property
    def preemptions_per_job(self) -> float:
        return float((self.starts - 1).mean())


NO_PAUSES = Pauses()


def replay(jobs: Sequence[Job], gpus: int, rule: Rule, pauses: Pauses = NO_PAUSES) -> Result:
    """Run the jobs to the last end."""
    begin = process_time()
    result = _Loop(jobs, gpus, rule, pauses).run()
    result.cpu_seconds = process_time() - begin
    return result


class _Loop:
    """The columns, one row per job in order of arrival, and the time."""

    def __init__(self, jobs: Sequence[Job], gpus: int, rule: Rule, pauses: Pauses) -> None:
        ordered = sorted(jobs, key=lambda job: job.submit_seconds)
        count = len(ordered)
        self.gpus, self.rule, self.pauses = gpus, rule, pauses
        self.submitted = np.array([job.submit_seconds for job in ordered])
        self.asked = np.array([job.width.asked_gpus for job in ordered], np.int64)
        self.widest = np.array([job.width.max_gpus for job in ordered], np.int64)
        self.total = np.array([job.work.amount for job in ordered])
        self.remaining = self.total.copy()
        self.curve, self.speeds = _tables(ordered)
        self.width = np.zeros(count, np.int64)
        self.since = np.zeros(count)
        self.attained = np.zeros(count)
        self.idle_until = np.zeros(count)
        self.live: Ints = np.zeros(0, np.int64)
        self.now, self.arrived = 0.0, 0
        zeros = np.zeros(count, np.int64)
        self.result = Result(np.zeros(count), zeros, zeros.copy())

    def run(self) -> Result:
        submitted = self.submitted
        while self.arrived < len(submitted) or len(self.live):
            ends = self._ends()
            upcoming = submitted[self.arrived] if self.arrived < len(submitted) else np.inf
            at = min(upcoming, ends.min(initial=np.inf))
            self._train_until(at, ends)
            until = int(np.searchsorted(submitted, at, "right"))
            self.live = np.concatenate([self.live, np.arange(self.arrived, until)])
            self.arrived = until
            if len(self.live):
                self._decide()
        self.result.span_seconds = self.now - float(submitted[0])
        return self.result

    def _ends(self) -> Floats:
        """When each job ends if nothing changes; never for those who have no GPU."""
        live = self.live
        speed = self.speeds[live, self.width[live]]
        with np.errstate(divide="ignore"):
            left = np.where(speed > 0, self.remaining[live] / speed, np.inf)
        ends: Floats = np.maximum(self.idle_until[live], self.now) + left
        return ends

    def _train_until(self, at: float, ends: Floats) -> None:
        live, width = self.live, self.width[self.live]
        seconds = np.maximum(at - np.maximum(self.idle_until[live], self.now), 0.0)
        self.remaining[live] -= seconds * self.speeds[live, width]
        held = (np.minimum(ends, at) - self.now) * width
        self.attained[live] += held
        self.result.used_gpu_seconds += float(held.sum())
        self.now = at
        over = ends <= at + ROUNDING_SECONDS
        if over.any():
            ended = live[over]
            self.result.jct_seconds[ended] = ends[over] - self.submitted[ended]
            self.width[ended] = 0
            self.live = live[~over]

    def _decide(self) -> None:
        live = self.live
        begin = process_time()
        widths = self.rule(self._scene())
        self.result.rule_cpu_seconds += process_time() - begin
        self.result.rounds += 1
        if int(widths.sum()) > self.gpus or (widths > self.widest[live]).any():
            raise ValueError("a rule gave out more than there is")
        before = self.width[live]
        starts = (before == 0) & (widths > 0)
        changes = (before > 0) & (widths > 0) & (widths != before)
        self.result.starts[live] += starts
        self.result.changes[live] += changes
        self.width[live] = widths
        self.since[live] = np.where(starts | changes, self.now, self.since[live])
        pause = starts * self.pauses.start_seconds + changes * self.pauses.resize_seconds
        self.idle_until[live] = np.where(starts | changes, self.now + pause, self.idle_until[live])

    def _scene(self) -> Scene:
        live = self.live
        return Scene(
            now=self.now,
            gpus=self.gpus,
            remaining=self.remaining[live],
            speeds=self.speeds[live],
            widest=self.widest[live],
            asked=self.asked[live],
            width=self.width[live],
            since=self.since[live],
            submitted=self.submitted[live],
            total=self.total[live],
            attained=self.attained[live],
            changes=self.result.changes[live],
            curve=self.curve[live],
        )


def _tables(jobs: Sequence[Job]) -> tuple[Ints, Floats]:
    """Which curve each job has, and the speeds of each job by width."""
    numbers: dict[Curve, int] = {}
    for job in jobs:
        assert job.truth.curve is not None
        numbers.setdefault(job.truth.curve, len(numbers))
    longest = max(job.width.max_gpus for job in jobs)
    rows = [[0.0, *(curve.at(width) for width in range(1, longest + 1))] for curve in numbers]
    curve_of = np.array([numbers[job.truth.curve] for job in jobs], np.int64)  # type: ignore[index]
    return curve_of, np.array(rows)[curve_of]


# --- the four rules of the reference --------------------------------------------------------------


def srtf(scene: Scene) -> Ints:
    """The traced width, shortest remaining time first, skipping what does not fit."""
    asked = scene.asked
    seconds = scene.remaining / scene.speeds[np.arange(len(scene)), asked]
    widths, left = np.zeros(len(scene), np.int64), scene.gpus
    for row in np.argsort(seconds, kind="stable").tolist():
        if asked[row] <= left:
            widths[row] = asked[row]
            left -= int(asked[row])
            if not left:
                break
    return widths


def maxmin(scene: Scene) -> Ints:
    """One each in order of arrival, then one more to the smallest share."""
    widths, left = one_each(scene, scene.submitted)
    open_share = np.where(widths < scene.widest, widths, np.iinfo(np.int64).max)
    while left and (row := int(open_share.argmin())) >= 0 and widths[row] < scene.widest[row]:
        widths[row] += 1
        left -= 1
        open_share[row] += 1
        if widths[row] >= scene.widest[row]:
            open_share[row] = np.iinfo(np.int64).max
    return widths


def optimus(scene: Scene) -> Ints:
    """One each to the shortest, then one more where it saves most of the remaining seconds."""
    widths, left = one_each(scene, scene.seconds_on_one())
    speeds, remaining, widest = scene.speeds, scene.remaining, scene.widest
    if not left:
        return widths

    def saving(row: int, width: int) -> float:
        if width >= widest[row]:
            return -np.inf
        return float(remaining[row] / speeds[row, width] - remaining[row] / speeds[row, width + 1])

    savings = np.array([saving(row, 1) for row in range(len(scene))])
    for _ in range(left):
        row = int(savings.argmax())
        if savings[row] == -np.inf:
            break
        widths[row] += 1
        savings[row] = saving(row, int(widths[row]))
    return widths


def afs_l(scene: Scene) -> Ints:
    """One each to the shortest; then the shortest of those whose gain no other's loss exceeds.

    With r the gain of a further GPU relative to the present speed and s relative to the new one,
    the next GPU goes to the job that ends first among those with r >= max s.
    """
    widths, left = one_each(scene, scene.seconds_on_one())
    if not left:
        return widths
    speeds, remaining, widest = scene.speeds, scene.remaining, scene.widest
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.minimum(speeds[:, 2:] / speeds[:, 1:-1], np.inf) - 1.0
    r = np.where(widest > 1, gain[:, 0], -np.inf)
    s = np.where(widest > 1, r / (1.0 + r), -np.inf)
    length = scene.seconds_on_one()
    for _ in range(left):
        bar = s.max()
        if bar == -np.inf:
            break
        row = int(np.where(r >= bar, length, np.inf).argmin())
        widths[row] += 1
        width = int(widths[row])
        length[row] = remaining[row] / speeds[row, width]
        r[row] = gain[row, width - 1] if width < widest[row] else -np.inf
        s[row] = r[row] / (1.0 + r[row]) if width < widest[row] else -np.inf
    return widths


def one_each(scene: Scene, order: Floats) -> tuple[Ints, int]:
    """One GPU each, in the given order while they last; and how many are left."""
    widths = np.zeros(len(scene), np.int64)
    widths[np.argsort(order, kind="stable")[: scene.gpus]] = 1
    return widths, scene.gpus - min(len(scene), scene.gpus)


RULES: dict[str, Rule] = {"srtf": srtf, "maxmin": maxmin, "optimus": optimus, "afs_l": afs_l}


def main() -> None:
    """The reference table from this loop, for the rules that are named."""
    from benchmarks.elastic.reference import table  # noqa: PLC0415 - it imports this module

    table(sys.argv[1:] or list(RULES))


if __name__ == "__main__":
    main()
