"""What the micro-batches of one step count for, on one worker.

Without a word of the script they count for their samples, and since everybody knows the size of a
global batch, the mean over it needs no message: each loss is multiplied by its share. A mean over
tokens does need one, for nobody knows how many tokens the others have. So each loss is multiplied
by its own weight, the weights are summed with the gradients, and the sum is divided by theirs.

To keep gradients in the range that they have in plain PyTorch, which half precision cares for, a
worker computes in a unit of its own, what the whole batch would weigh if it were like the worker's
first micro-batch, and comes back to the common one before the sum.
"""

import math

from weft.model.errors import SpecError


class Weighing:
    """Shares or weights, one after the other; never both in a step."""

    def __init__(self, unit: float = 0.0) -> None:
        """With a unit given, members whose gradients meet before the sum have it in common."""
        self._common = unit
        self.clear()

    def clear(self) -> None:
        """A step begins."""
        self.unit = self._common
        self._total = 0.0
        self._given: bool | None = None

    @property
    def total(self) -> float | None:
        """What this worker's micro-batches weigh together, if they were given weights."""
        return self._total if self._given else None

    def factor(self, share: float, weight: float | None) -> float:
        """What a loss is multiplied by; a worker that stands in has no share."""
        given = weight is not None
        if self._given not in (None, given):
            raise SpecError(
                "weft.backward() with a weight and without one in the same step",
                hint="give one in each micro-batch, or in none",
            )
        self._given = given
        if weight is None:
            return share
        if not (weight >= 0 and math.isfinite(weight)):
            raise SpecError(
                f"a micro-batch cannot weigh {weight}", hint="give the number of its tokens"
            )
        if not share or not weight:
            return 0.0
        self._total += weight
        self.unit = self.unit or weight / share
        return weight / self.unit

    def take(self) -> tuple[float, float]:
        """The unit of what was computed so far, and its weight; what follows has its own."""
        taken = self.unit, self._total
        self.unit, self._total = self._common, 0.0
        return taken
