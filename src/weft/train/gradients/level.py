"""How exactly a run is to repeat itself when its width changes.

`same_math`: every step sums the same gradients of the same samples; the order of additions, and so
the last bits, follow the width. `bitwise`: the batch is always computed in the same parts and the
parts are always added in the same order, so that the weights are equal to the last bit.
"""

from enum import StrEnum

import torch
from torch import Tensor

from weft.agent.plan import REPLICATED, Plan
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


def reduction_for(level: Level, book: StateBook, parts: int, plan: Plan = REPLICATED) -> Reduction:
    """How gradients are summed at this level."""
    buffers = summed_buffers(book)
    if plan.unit > 1:
        _check(level, book, plan, buffers)
        return ShardReduction(book.parameters, buffers, plan.copies)
    if level is Level.SAME_MATH:
        return BucketReduction(book.parameters, buffers)
    torch.use_deterministic_algorithms(True)
    return TreeReduction(book.parameters, buffers, parts)


def _check(level: Level, book: StateBook, plan: Plan, buffers: list[Tensor]) -> None:
    """Refuse what several workers that hold one model together would get wrong."""
    if level is Level.BITWISE:
        raise SpecError(
            "a model that several workers hold together cannot be bitwise",
            hint="use determinism='same_math' with it",
        )
    if plan.pipeline > 1 and buffers:
        raise SpecError(
            "a model in stages with buffers that are averaged over the workers",
            hint="use norms without running means, and register fixed tables as not persistent "
            "attributes",
        )
    for name, parameter in book.parameters():
        if plan.shard > 1 and not is_sharded(parameter):
            raise SpecError(
                f"{name} is held whole by each of those who hold the model together",
                hint="with --shard, let all that the optimizer moves be parts of the model",
            )
