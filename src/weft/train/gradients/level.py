"""How exactly a run is to repeat itself when its width changes.

`same_math`: every step sums the same gradients of the same samples; the order of additions, and so
the last bits, follow the width. `bitwise`: the batch is always computed in the same parts and the
parts are always added in the same order, so that the weights are equal to the last bit.
"""

from enum import StrEnum

import torch
from torch import Tensor

from weft.model.errors import SpecError
from weft.train.gradients.reducer import BucketReduction, Reduction
from weft.train.gradients.sharded import ShardReduction
from weft.train.gradients.tree import TreeReduction
from weft.train.state.book import StateBook
from weft.train.state.local_tensors import is_sharded


class Level(StrEnum):
    """The two promises."""

    SAME_MATH = "same_math"
    BITWISE = "bitwise"


def summed_buffers(book: StateBook) -> list[Tensor]:
    """What the forward pass may change, and all workers are to have alike."""
    buffers = book.model.buffers()
    return [b for b in buffers if b.is_floating_point() or b.dtype == torch.int64]


def reduction_for(level: Level, book: StateBook, parts: int) -> Reduction:
    """How gradients are summed at this level."""
    model, buffers = book.model, summed_buffers(book)
    if any(is_sharded(parameter) for parameter in model.parameters()):
        if level is Level.BITWISE:
            raise SpecError(
                "a sharded plan cannot be bitwise", hint="use determinism='same_math' with it"
            )
        for name, parameter in book.parameters():
            if not is_sharded(parameter):
                raise SpecError(
                    f"{name} is held whole by each of those who hold the model together",
                    hint="with --shard, let all that the optimizer moves be parts of the model",
                )
        return ShardReduction(book.parameters, buffers)
    if level is Level.SAME_MATH:
        return BucketReduction(book.parameters, buffers)
    torch.use_deterministic_algorithms(True)
    return TreeReduction(book.parameters, buffers, parts)
