"""Peak memory once more, written without the formulas: every tensor is walked, every event played.

The rules that both follow are those of `weft.perf.plans.memory`. Here a stage is a list of weight
matrices, a block is a list of operations that each keep what their gradient needs (as eager PyTorch
does with tiled attention), one-forward-one-backward is played event by event for every stage, and
the peak is the largest sum of what is alive at any event.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from weft.model.plan import ExecutionPlan, Sharding
from weft.model.shape import ModelShape, Precision

SINGLE = 4


def matrices(shape: ModelShape) -> list[tuple[int, bool]]:
    """Of one block: numbers, and whether tensor ranks split them."""
    hidden, inner = shape.hidden, shape.inner
    keys = int(hidden * shape.kv_share)
    attention = [hidden * hidden, hidden * keys, hidden * keys, hidden * hidden]
    feeding = [hidden * inner] * (3 if shape.gated else 2)
    return [(numbers, True) for numbers in attention + feeding] + [(2 * hidden, False)]


def counted(shape: ModelShape) -> int:
    """All parameters of a model with these matrices."""
    block = sum(numbers for numbers, _ in matrices(shape))
    ends = shape.vocabulary * shape.hidden * (1 if shape.tied else 2)
    return shape.layers * block + ends


def kept_by_block(shape: ModelShape, size: int, tensor: int) -> int:
    """Bytes of one token that the operations of a block keep, one operation after the other."""
    hidden, inner, split = shape.hidden * size, shape.inner * size, tensor
    keys = int(shape.hidden * shape.kv_share) * size
    operations = [
        ("norm", hidden, 1),
        ("norm statistics", 2 * SINGLE, 1),
        ("projections of queries, keys, values", hidden, 1),
        ("attention: queries", hidden, split),
        ("attention: keys", keys, split),
        ("attention: values", keys, split),
        ("attention: scale per head", SINGLE * shape.attention_heads, split),
        ("projection of its output", hidden, split),
        ("norm", hidden, 1),
        ("norm statistics", 2 * SINGLE, 1),
        ("inner layer, up", hidden, 1),
        ("its function", inner, split),
        ("inner layer, down", inner, split),
    ]
    if shape.gated:
        operations += [("product: gate", inner, split), ("product: up", inner, split)]
    return sum(ceil(numbers / ranks) for _, numbers, ranks in operations)


@dataclass(frozen=True)
class Walk:
    """One plan of one model."""

    plan: ExecutionPlan
    shape: ModelShape
    samples: int
    """Of one micro-batch."""

    precision: Precision

    def peak(self) -> float:
        return max(self._of_stage(stage) for stage in range(self.plan.pipeline))

    def _of_stage(self, stage: int) -> float:
        return self._state(stage) + max(self._alive(stage))

    def _blocks(self) -> int:
        return self.shape.layers // self.plan.pipeline

    def _block(self) -> float:
        tensor = self.plan.tensor
        return sum(n / tensor if split else n for n, split in matrices(self.shape))

    def _ends(self, stage: int) -> float:
        """Numbers of embedding and head on this stage."""
        one = self.shape.vocabulary * self.shape.hidden / self.plan.tensor
        first, last = stage == 0, stage == self.plan.pipeline - 1
        if first and last and self.shape.tied:
            return one
        return one * (int(first) + int(last))

    def _shards(self) -> int:
        return self.plan.shard_degree or self.plan.data

    def _state(self, stage: int) -> float:
        numbers = self._blocks() * self._block() + self._ends(stage)
        of = {Sharding.NONE: 0, Sharding.OPTIMIZER: 1, Sharding.GRADIENTS: 2}
        level = of.get(self.plan.sharding, 3)
        size, shared = self.precision, ceil(numbers / self._shards())
        total = size.weight * (shared if level >= 3 else numbers)
        if not self.plan.offload:
            total += size.gradient * (shared if level >= 2 else numbers)
            total += size.optimizer * (shared if level >= 1 else numbers)
        return total

    def _alive(self, stage: int) -> Iterator[float]:
        """Bytes besides the state at every event of one step; the head's are gone behind it."""
        tokens = self.samples * self.shape.sequence
        size = self.precision.activation
        full = tokens * kept_by_block(self.shape, size, self.plan.tensor)
        passed = tokens * self.shape.hidden * size
        per_block = passed if self.plan.recompute else full
        held = self._blocks() * per_block
        head = self._at_head(stage, tokens, passed)
        for ahead in self._in_flight(stage):
            base = ahead * held
            kept_head = head[0] if head else 0.0
            yield base + kept_head + self._gathered(stage)
            if head:
                yield base + sum(head) + self._gathered(stage)
            for done in range(self._blocks()):
                left = base - done * per_block
                anew = full - passed if self.plan.recompute else 0.0
                inner = self.shape.inner * (2 if self.shape.gated else 1) / self.plan.tensor
                gradients = passed + tokens * size * (self.shape.hidden + inner)
                matrix = self.shape.hidden * self.shape.inner / self.plan.tensor
                gradients += self.precision.gradient * matrix
                yield left + anew + gradients + self._gathered(stage) + self._loose()

    def _at_head(self, stage: int, tokens: int, passed: float) -> tuple[float, float] | None:
        """What the head keeps, and what its gradient needs besides."""
        if stage != self.plan.pipeline - 1:
            return None
        logits = tokens * self.shape.vocabulary / self.plan.tensor
        kept = 2 * passed + SINGLE * logits
        return kept, logits * (SINGLE + self.precision.activation)

    def _in_flight(self, stage: int) -> Iterator[int]:
        """Micro-batches whose activations a stage holds as it begins each backward pass."""
        total = self.plan.micro_batches
        warm = min(self.plan.pipeline - stage - 1, total)
        forwards, backwards = warm, 0
        while backwards < total:
            if forwards < total:
                forwards += 1
            yield forwards - backwards
            backwards += 1

    def _gathered(self, stage: int) -> float:
        if self.plan.sharding is not Sharding.PARAMETERS:
            return 0.0
        blocks = min(2, self._blocks())
        return self.precision.weight * (blocks * self._block() + self._ends(stage))

    def _loose(self) -> float:
        late = self.plan.sharding in (Sharding.GRADIENTS, Sharding.PARAMETERS)
        if not late and not self.plan.offload:
            return 0.0
        return self.precision.gradient * min(2, self._blocks()) * self._block()
