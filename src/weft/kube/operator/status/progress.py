"""What workers last told of their jobs, in the words of a job's status."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from weft.kube.operator.observation.recorded_decision import capabilities
from weft.kube.operator.status.patches import stamp
from weft.kube.reports.payload import OrderAnswer, Report, Unit
from weft.kube.reports.server import WorkerIdentity
from weft.model.capability import Capability
from weft.model.claim import WorkClaim
from weft.spec.counted import work_in_steps

MOST_METRICS: Final = 32
WIDTH: Final = "width"
OF_THE_HEAD: Final = ("live", "width", "paused_seconds", "offers", "order")


@dataclass(frozen=True, slots=True)
class Told:
    """The last report of a job; numbers that were not said are left out.

    `live`, `width` and `paused_seconds` are what its head said of itself in this epoch, whoever
    reported last: whether it can be resized while it trains, how many train, and how long the last
    resize kept them from it. So are `offers`, as what its program can be run, and `order`, what
    came of the last order to go to another plan.
    """

    epoch: int
    fraction: float | None
    work: Mapping[str, Any]
    metrics: Mapping[str, float] = field(default_factory=dict)
    live: bool | None = None
    width: int | None = None
    paused_seconds: float | None = None
    offers: tuple[Capability, ...] = ()
    order: OrderAnswer | None = None

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
            told = replace(told, **{name: getattr(before, name) for name in OF_THE_HEAD})
        if worker.is_head and report.live is not None:
            told = replace(
                told,
                live=report.live,
                width=int(report.metrics.get(WIDTH, 0)) or None,
                paused_seconds=report.paused_seconds,
                offers=capabilities(report.offers) or told.offers,
                order=report.order or told.order,
            )
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

    def answer(self, key: str, epoch: int) -> OrderAnswer | None:
        """What came of the last order to go to another plan."""
        told = self._told.get(key)
        return told.order if told is not None and told.epoch == epoch else None

    def is_due(self, key: str, now: float, spacing_seconds: float = 10.0) -> bool:
        """Whether the brain should hear of it again."""
        if now - self._passed_on.get(key, float("-inf")) < spacing_seconds:
            return False
        self._passed_on[key] = now
        return True

    def forget(self, key: str) -> None:
        self._told.pop(key, None)
        self._passed_on.pop(key, None)
