"""What the brain knows of neighbours: jobs that sit on the same nodes and slow each other.

By job its best speed in each setting, which is what it does undisturbed as far as anybody has seen;
by node when somebody left it; and for pairs of programs what was learnt.
"""

from dataclasses import dataclass, field

from weft.brain.event import JobMeasured
from weft.model.request import JobRequest
from weft.perf.neighbours import Label, Slowdowns

Setting = tuple[int, int, int, int, float]
"""GPUs, nodes, racks, GPU type and cores: what else a speed hangs on."""


@dataclass(slots=True)
class NeighbourBook:
    """By row of the job, by row of the node, and for all."""

    slowdowns: Slowdowns = field(default_factory=Slowdowns)
    best: dict[int, dict[Setting, float]] = field(default_factory=dict)
    heard: dict[int, tuple[int, float, float]] = field(default_factory=dict)
    left_at: dict[int, float] = field(default_factory=dict)

    def leave(self, nodes: list[int], now: float) -> None:
        """Somebody has left these nodes."""
        self.left_at.update(dict.fromkeys(nodes, now))

    def is_repeated(self, slot: int, event: JobMeasured) -> bool:
        """A message that comes twice was measured once."""
        said = event.epoch, event.units_per_second, event.work_done
        repeated = self.heard.get(slot) == said
        self.heard[slot] = said
        return repeated

    def see(self, slot: int, setting: Setting, speed: float, *, alone: bool) -> float:
        """The best speed in that setting: the last one alone, or the highest beside others."""
        speeds = self.best.setdefault(slot, {})
        speeds[setting] = speed if alone else max(speed, speeds.get(setting, 0.0))
        return speeds[setting]

    def forget(self, slot: int) -> None:
        """The row is nobody's any more."""
        self.best.pop(slot, None)
        self.heard.pop(slot, None)

    def copied(self) -> "NeighbourBook":
        best = {slot: dict(speeds) for slot, speeds in self.best.items()}
        return NeighbourBook(self.slowdowns.copied(), best, dict(self.heard), dict(self.left_at))


def label_of(job: JobRequest) -> Label:
    return Label(job.tenant, job.program or job.id)
