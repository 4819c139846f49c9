"""What workers last told of their jobs, in the words of a job's status."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.kube.names import HEAD_SEAT
from weft.kube.operator.status import stamp
from weft.kube.reports.payload import Report
from weft.kube.reports.server import WorkerIdentity

MOST_METRICS = 32


@dataclass(frozen=True, slots=True)
class Told:
    """The last report of a job; numbers that were not said are left out.

    `live` is what its head said of itself in this epoch, whoever reported last.
    """

    epoch: int
    fraction: float | None
    work: Mapping[str, Any]
    metrics: Mapping[str, float] = field(default_factory=dict)
    live: bool | None = None

    @property
    def percent(self) -> str | None:
        return None if self.fraction is None else f"{self.fraction:.0%}"


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
        }
        work: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
        work |= {"unit": str(report.unit), "updatedAt": stamp(now)}
        metrics = dict(list(report.metrics.items())[:MOST_METRICS])
        live = self.live(key, worker.epoch)
        if worker.seat == HEAD_SEAT and report.live is not None:
            live = report.live
        told = self._told[key] = Told(worker.epoch, report.fraction, work, metrics, live)
        return told

    def of(self, key: str) -> Told | None:
        return self._told.get(key)

    def live(self, key: str, epoch: int) -> bool | None:
        """Whether the job can be resized while it trains; None before its head has said so."""
        told = self._told.get(key)
        return told.live if told is not None and told.epoch == epoch else None

    def is_due(self, key: str, now: float, spacing_seconds: float = 10.0) -> bool:
        """Whether the brain should hear of it again."""
        if now - self._passed_on.get(key, float("-inf")) < spacing_seconds:
            return False
        self._passed_on[key] = now
        return True

    def forget(self, key: str) -> None:
        self._told.pop(key, None)
        self._passed_on.pop(key, None)
