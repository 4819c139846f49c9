"""The control word: what is no gradient, and is summed over all members with them.

One number per flag, above zero in the sum if any member raised it; then how many members weigh
their micro-batches, and what their weights come to. So everybody knows all of it in the same step,
without a message of its own.
"""

from typing import Final

import torch
from torch import Tensor

from weft.model.errors import SpecError
from weft.train.gradients.flag import Flag

_WEIGHING: Final = len(Flag)
_WEIGHT: Final = _WEIGHING + 1
NUMBERS: Final = _WEIGHT + 1
# Types that a sum of weights may be taken in; others know too few numbers.
EXACT: Final = frozenset({torch.float32, torch.float64})


class Word:
    """One member's, and after the sum that of all."""

    def __init__(self, numbers: Tensor | None = None) -> None:
        self.numbers = torch.zeros(NUMBERS, dtype=torch.float64) if numbers is None else numbers

    @classmethod
    def on(cls, device: torch.device) -> "Word":
        """Where the gradients are, so that their group can sum it."""
        return cls(torch.zeros(NUMBERS, dtype=torch.float64, device=device))

    def clear(self) -> None:
        self.numbers.zero_()

    def say(self, raised: frozenset[Flag], weight: float | None) -> None:
        """What this member has to say; no weight means that samples count alike."""
        for flag in raised:
            self.numbers[flag] = 1
        if weight is not None:
            self.numbers[_WEIGHING] = 1
            self.numbers[_WEIGHT] = weight

    def seen(self, flag: Flag) -> bool:
        return bool(self.numbers[flag] > 0)

    def weight(self, members: int) -> float | None:
        """Of all micro-batches together, if they were weighed; refused if only some were."""
        weighing = round(self.numbers[_WEIGHING].item())
        if 0 < weighing < members:
            raise SpecError(
                f"{weighing} of {members} workers called weft.backward with a weight",
                hint="give one in each micro-batch, or in none",
            )
        return self.numbers[_WEIGHT].item() if weighing else None
