"""How fast jobs train, from what their workers report.

The head of a job that is resized live measures its speed itself, at one width. Of any other job
that tells its steps two reports of the same worker make a measurement, because its width cannot
change within an epoch. A speed belongs to the seats that trained: while a resize is under way
nobody can say which those are, and nothing is passed on.

Whoever is faster on more GPUs gets more of them, so a claim is worth something and is not taken at
its word. The operator has a clock and the job's counter of steps: a speed is passed on when it has
seen the counter go on for a while at that width, and no faster than it went.
"""

from dataclasses import dataclass
from typing import Final

from weft.brain.event import JobMeasured
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.reports.payload import Report, Unit
from weft.kube.reports.server import WorkerIdentity
from weft.model.placement import Placement
from weft.model.request import JobRequest
from weft.reconcile.measured_stages import stages_of
from weft.spec.counted import stated_by_script, work_in_steps

APART_SECONDS: Final = 10.0
FEWEST_STEPS: Final = 5.0
LOSS: Final = "loss"
CONFIRM_SECONDS: Final = 5.0
PAUSES: Final = 1.5
"""A head leaves out of its measurements what the clock cannot: saving, evaluating."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """Where a worker of an epoch was, and when."""

    epoch: int
    seat: int
    steps: float
    at: float
    width: int = 0
    serial: int = 0


class Speeds:
    """The measurements of all jobs, each passed on once."""

    def __init__(self) -> None:
        self._numbers: dict[str, tuple[int, int]] = {}
        self._marks: dict[str, _Mark] = {}
        self._counted: dict[str, _Mark] = {}

    def hear(
        self,
        job: JobRequest,
        observed: ObservedJob,
        worker: WorkerIdentity,
        report: Report,
        now: float,
    ) -> JobMeasured | None:
        """What this report adds to what is known of the job's speed, if anything."""
        seats = observed.placement
        if seats is None or observed.joining or observed.order is not None:
            return None
        if observed.epoch != worker.epoch:
            return None
        if report.unit is not Unit.STEPS or report.done is None:
            return None
        found = self._measured(observed, seats, worker, report, now)
        if found is None:
            return None
        steps_per_second, seconds = found
        shared = report.speed is not None and report.speed.shared
        width = max(seats.width, 1)
        rate = work_in_steps(job.work, steps_per_second, report.total)
        done = work_in_steps(job.work, report.done, report.total)
        if rate is None or done is None:
            return None
        return JobMeasured(
            now,
            job.id,
            worker.epoch,
            gpus=seats.width,
            nodes=len(seats.nodes),
            units_per_second=rate,
            seconds=seconds,
            work_done=done,
            cpus=sum(seat.cpus for seat in seats.seats),
            work_total=stated_by_script(job.work, report.total),
            loss=report.metrics.get(LOSS),
            stages=stages_of(report.profile, width, on_gpus=True),
            stages_in_turns=stages_of(report.profile_in_turns, width, on_gpus=True),
            shared_steps_per_second=steps_per_second if shared else None,
        )

    def forget(self, key: str) -> None:
        self._numbers.pop(key, None)
        self._marks.pop(key, None)
        self._counted.pop(key, None)

    def _measured(
        self,
        observed: ObservedJob,
        seats: Placement,
        worker: WorkerIdentity,
        report: Report,
        now: float,
    ) -> tuple[float, float] | None:
        """Steps per second, and over how many seconds."""
        key, speed, steps = observed.key, report.speed, report.done or 0.0
        if speed is None and not report.live:
            return self._between(key, worker, steps, now)
        if not worker.is_head:
            return None
        here = _Mark(worker.epoch, worker.seat, steps, now, seats.width, observed.serial)
        counted = self._counted_speed(key, here)
        if speed is None or counted is None or speed.width != max(seats.width, 1):
            return None
        known = (worker.epoch, speed.number)
        if self._numbers.get(key) == known:
            return None
        self._numbers[key] = known
        return min(speed.steps_per_second, PAUSES * counted), speed.seconds

    def _counted_speed(self, key: str, here: _Mark) -> float | None:
        """How fast the counter has gone on by the operator's clock since the last change."""
        first = self._counted.get(key)
        if first is None or _since(first) != _since(here):
            self._counted[key] = first = here
        if here.steps < first.steps:
            self._counted[key] = here
            return None
        seconds = here.at - first.at
        if seconds < CONFIRM_SECONDS or here.steps <= first.steps:
            return None
        return (here.steps - first.steps) / seconds

    def _between(
        self, key: str, worker: WorkerIdentity, steps: float, now: float
    ) -> tuple[float, float] | None:
        """Since the last mark of the same worker, if that is long enough ago."""
        mark = self._marks.get(key)
        here = _Mark(worker.epoch, worker.seat, steps, now)
        if mark is None or mark.epoch != worker.epoch or steps < mark.steps:
            self._marks[key] = here
            return None
        seconds, made = now - mark.at, steps - mark.steps
        if mark.seat != worker.seat or seconds < APART_SECONDS or made < FEWEST_STEPS:
            return None
        self._marks[key] = here
        return made / seconds, seconds


def _since(mark: _Mark) -> tuple[int, int, int]:
    """What has to stand still: a resize changes the width, a change of the plan the serial."""
    return mark.epoch, mark.width, mark.serial
