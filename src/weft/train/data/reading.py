"""What one worker reads in the steps of a loop, at its place among those that bring samples."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch

from weft.train.data.loader import Loader, MicroBatch
from weft.train.data.split import Share, fixed_shares, shares


@dataclass(frozen=True, slots=True)
class Position:
    """The rank of a worker among so many, of whom `together` hold one model."""

    workers: int
    rank: int
    together: int


class Reading:
    """Of one loop: its loader, and what was read of it to stand in where there is nothing."""

    def __init__(self, loader: Loader, logical: int | None) -> None:
        self.loader = loader
        self._logical = logical
        self._warm_batch: MicroBatch | None = None

    def shares(self, step: int, at: Position | None) -> tuple[Share, ...]:
        """The worker's part of a step of the loader; without a position it has none."""
        if at is None:
            return ()
        batch, micro = self.loader.global_batch, self.loader.micro
        if self.loader.fixed and micro is not None and self._logical is None:
            return fixed_shares(step, batch, at.workers, at.rank, micro, at.together)
        return shares(step, batch, at.workers, at.rank, micro, self._logical, at.together)

    def expect(self, rest: Iterable[Share], later: range, at: Position | None) -> None:
        """What is wanted now and will be next, in the steps of the loader that come later."""
        wanted, reach = [share for share in rest if share.samples], self.loader.reach
        for step in later[:reach]:
            if len(wanted) > reach > 1:
                break
            wanted += [share for share in self.shares(step, at) if share.samples]
        self.loader.expect(wanted)

    def warm(self, width: int) -> MicroBatch:
        """As large a micro-batch as this worker will see, for what only has to run."""
        self._warm_batch = self.loader.fetch(self._first_share(width), warmup=True)
        return self._warm_batch

    def stand_in(self, step: int, width: int, *, last: bool) -> MicroBatch:
        """For a worker without samples in this step: something to run the loop's body on."""
        if self._warm_batch is None:
            self._warm_batch = self.loader.fetch(self._first_share(width))
        return replace(self._warm_batch, step=step, last=last, warmup=False)

    def _first_share(self, width: int) -> Share:
        return self.shares(0, Position(min(width, self.loader.global_batch), 0, 1))[0]


def seed_chance(seed: int, step: int, part: int) -> None:
    """Chance in a micro-batch depends on its place in the run and on nothing else."""
    drawn = (seed * 1_000_003 + step) * 1_000_033 + part & 0x7FFF_FFFF_FFFF_FFFF
    torch.default_generator.manual_seed(drawn)  # a hundred times faster than torch.manual_seed
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(drawn)
