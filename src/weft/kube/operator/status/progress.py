"""What workers last told of their jobs, in the words of a job's status."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from weft.kube.operator.status.patches import stamp
from weft.kube.reports.payload import Report, Unit
from weft.kube.reports.server import WorkerIdentity
from weft.model.claim import WorkClaim
from weft.spec.counted import work_in_steps

MOST_METRICS: Final = 32
WIDTH: Final = "width"


@dataclass(frozen=True, slots=True)
class Told:
    """The last report of a job; numbers that were not said are left out.

    `live`, `width` and `paused_seconds` are what its head said of itself in this epoch, whoever
    reported last: whether it can be resized while it trains, how many train, and how long the last
    resize kept them from it.
    """

    epoch: int
    fraction: float | None
    work: Mapping[str, Any]
    metrics: Mapping[str, float] = field(default_factory=dict)
    live: bool | None = None
    width: int | None = None
    paused_seconds: float | None = None

    @property
    def percent(self) -> str | None:
        return None if self.fraction is None else f"{self.fraction:.0%}"

    def work_done(self, work: WorkClaim | None) -> float | None:
        """In the unit of the job's work; percent alone say nothing of a job that counts steps."""
        if "done" not in self.work or (self.work["unit"] != Unit.STEPS and work is None):
            return None
        return work_in_steps(work, self.work["done"], self.work.get("total"))


class Progress:
    """The last word of each job."""

    def __init__(self) -> None:
        self._told: dict[str, Told] = {}
        self._passed_on: dict[str, float] = {}

    def hear(self, key: str, worker: WorkerIdentity, report: Report, now: float) -> Told:
        said = {
            "done": report.done,
            "total": report.total,
            "saved": report.saved,
            "remainingSeconds": report.remaining_seconds,
            "saveEverySeconds": report.save_every_seconds,
        }
        work: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
        work |= {"unit": str(report.unit), "updatedAt": stamp(now)}
        metrics = dict(list(report.metrics.items())[:MOST_METRICS])
        told = Told(worker.epoch, report.fraction, work, metrics)
        before = self._told.get(key)
        if before is not None and before.epoch == worker.epoch:
            head = (before.live, before.width, before.paused_seconds)
            told = replace(told, live=head[0], width=head[1], paused_seconds=head[2])
        if worker.is_head and report.live is not None:
            width = int(report.metrics.get(WIDTH, 0)) or None
            paused = report.paused_seconds
            told = replace(told, live=report.live, width=width, paused_seconds=paused)
        self._told[key] = told
        return told

    def of(self, key: str) -> Told | None:
        return self._told.get(key)

    def live(self, key: str, epoch: int) -> bool | None:
        """Whether the job can be resized while it trains; None before its head has said so."""
        told = self._told.get(key)
        return told.live if told is not None and told.epoch == epoch else None

    def paused_seconds(self, key: str, epoch: int, width: int) -> float | None:
        """How long it cost the job to become so wide, where its head has said so."""
        told = self._told.get(key)
        if told is None or (told.epoch, told.width) != (epoch, width):
            return None
        return told.paused_seconds

    def is_due(self, key: str, now: float, spacing_seconds: float = 10.0) -> bool:
        """Whether the brain should hear of it again."""
        if now - self._passed_on.get(key, float("-inf")) < spacing_seconds:
            return False
        self._passed_on[key] = now
        return True

    def forget(self, key: str) -> None:
        self._told.pop(key, None)
        self._passed_on.pop(key, None)
