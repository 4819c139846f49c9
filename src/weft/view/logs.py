"""What workers print: whose of it is asked for, and a line of it."""

from collections.abc import Iterable
from dataclasses import dataclass

from weft.view.workers import WorkerLine


@dataclass(frozen=True, slots=True)
class Which:
    """Whose log: these ranks (None: all) of this epoch (None: the present one and later ones)."""

    ranks: frozenset[int] | None = frozenset({0})
    epoch: int | None = None
    tail: int | None = None

    def wants(self, worker: WorkerLine, present_epoch: int) -> bool:
        """A worker that still runs belongs to the present, whenever it joined."""
        if self.ranks is not None and worker.rank not in self.ranks:
            return False
        if self.epoch is not None:
            return worker.epoch == self.epoch
        return worker.exit_code is None or worker.epoch >= present_epoch

    def latest(self, workers: Iterable[WorkerLine]) -> list[WorkerLine]:
        """Of each rank the last one that worked under it."""
        by_rank = {
            worker.rank: worker
            for worker in sorted(workers, key=lambda worker: (worker.rank, worker.epoch))
            if self.wants(worker, 0)
        }
        return list(by_rank.values())


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that a worker printed, byte for byte, without its end."""

    rank: int
    epoch: int
    text: bytes
    node: str | None = None
