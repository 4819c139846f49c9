"""Peak memory of plans, term by term, from the shape of the model.

What is counted, per GPU of the fullest stage:

- *weights*, *gradients* and *optimizer* state of its blocks, its embedding or its head, divided by
  tensor ranks and by what ZeRO's stage shares out;
- *activations* that the backward pass needs, per block and sample in numbers: the inputs of both
  norms, of the attention and of the inner layer (4 hidden), queries, keys, values and the attention
  output, the inner layer before and after its function (twice; four times with a gate), a scale
  per head and two per norm. Tensor ranks share all but the first four. Attention is computed in
  tiles, so no matrix of the sequence's square is kept. With recomputation only each block's input
  is kept. A stage of p holds the activations of as many micro-batches as are on their way: the
  first one min(p, micro-batches), the last one 1;
- the *logits* of the last stage, as probabilities in single precision;
- *working* memory: blocks gathered for computing and gradients not yet shared out; the gradient
  of the logits, or, when those are gone, one block that is computed anew and what the backward
  pass hands on inside it.

The reserve for the driver, libraries and the allocator's gaps comes on top. Optimizers are fused:
an update needs no copy of its own.
"""

from dataclasses import dataclass

import numpy as np

from weft.model.plan import Sharding
from weft.model.shape import MIXED, ModelShape, Precision
from weft.perf.plans.columns import STAGES, Bools, Floats, Ints, PlanColumns
from weft.perf.plans.fabric import GIB, Fabric

TERMS = ("weights", "gradients", "optimizer", "activations", "logits", "working", "reserve")
RESERVE_BYTES = 1.5 * GIB
"""What the driver, its libraries and buffers of collectives take on any GPU."""

GAPS = 0.03
"""Of what is allocated, lost between allocations."""

GATHERED_BLOCKS = 2
"""The block that is computed and the next one, which is fetched meanwhile."""

SINGLE_BYTES = 4
FSDP2 = STAGES.index(Sharding.PARAMETERS)


@dataclass(frozen=True, slots=True)
class PeakMemory:
    """`terms[n, row]` are bytes on a GPU; `host_bytes` are what one replica's share keeps there."""

    terms: Floats
    host_bytes: Floats

    @property
    def total(self) -> Floats:
        found: Floats = self.terms.sum(axis=0)
        return found

    @property
    def tensors(self) -> Floats:
        """Without the reserve: what a program itself allocates."""
        found: Floats = self.terms[:-1].sum(axis=0)
        return found

    def fits(self, fabric: Fabric) -> Bools:
        """Whether both the GPU and the host's share per GPU suffice."""
        host = fabric.host_memory_bytes / fabric.gpus_per_node
        found: Bools = (self.total <= fabric.gpu_memory_bytes) & (self.host_bytes <= host)
        return found

    def refusal(self, row: int, fabric: Fabric) -> str:
        """Empty if the plan fits; otherwise the term that no longer did, as a sentence."""
        have = fabric.gpu_memory_bytes
        host = fabric.host_memory_bytes / fabric.gpus_per_node
        if self.total[row] > have:
            sums = np.cumsum(self.terms[:, row])
            term = int(np.argmax(sums > have))
            own, all_of = self.terms[term, row] / GIB, self.total[row] / GIB
            return (
                f"{TERMS[term]} of {own:.1f} GiB no longer fit: "
                f"{all_of:.1f} GiB are needed where a GPU has {have / GIB:.1f}"
            )
        if self.host_bytes[row] > host:
            return (
                f"offloaded state of {self.host_bytes[row] / GIB:.1f} GiB per GPU does not fit "
                f"into main memory, which has {host / GIB:.1f} per GPU"
            )
        return ""


def peak_memory(
    plans: PlanColumns, shape: ModelShape, batch: int, precision: Precision = MIXED
) -> PeakMemory:
    """Of each plan on its fullest stage, which is the first or the last one."""
    count = _Counts(plans, shape, batch, precision)
    first, last = count.stage(first=True), count.stage(first=False)
    worse = first.total >= last.total
    return PeakMemory(
        np.where(worse, first.terms, last.terms),
        np.where(worse, first.host_bytes, last.host_bytes),
    )


def block_activation_bytes(shape: ModelShape, precision: Precision, tensor: Ints) -> Floats:
    """What one block keeps of one sample for its backward pass, on each of so many ranks."""
    inner = (4 if shape.gated else 2) * shape.inner
    shared = (2.0 + 2.0 * shape.kv_share) * shape.hidden + inner
    numbers = precision.activation * (4.0 * shape.hidden + shared / tensor)
    norms, scales = 4 * SINGLE_BYTES, SINGLE_BYTES * shape.attention_heads / tensor
    return np.asarray(shape.sequence * (numbers + norms + scales))


class _Counts:
    """Bytes by stage; plans are rows throughout."""

    def __init__(
        self, plans: PlanColumns, shape: ModelShape, batch: int, precision: Precision
    ) -> None:
        self.plans, self.shape, self.bytes = plans, shape, precision
        self.blocks = shape.layers / plans.pipeline
        passes = plans.data * plans.accumulation * plans.micro_batches
        self.samples = batch / passes
        self.block_bytes = self.samples * block_activation_bytes(shape, precision, plans.tensor)
        self.input_bytes = shape.sequence * shape.hidden * precision.activation * self.samples

    def stage(self, *, first: bool) -> PeakMemory:
        """Terms of the first or the last stage; with one stage both are the same."""
        plans, size = self.plans, self.bytes
        numbers = self._parameters() / plans.tensor
        cuts = [np.where(plans.stage >= least, plans.shards, 1) for least in (3, 2, 1)]
        weights = size.weight * numbers / cuts[0]
        gradients = size.gradient * numbers / cuts[1]
        optimizer = size.optimizer * numbers / cuts[2]
        host = np.where(plans.offload, gradients + optimizer, 0.0)
        # With offload gradients leave as they come: the pieces on their way are working memory.
        terms = [
            weights,
            np.where(plans.offload, 0.0, gradients),
            np.where(plans.offload, 0.0, optimizer),
            *self._passing(first),
        ]
        allocated = np.stack(np.broadcast_arrays(*terms)).astype(np.float64)
        reserve = RESERVE_BYTES + GAPS * allocated.sum(axis=0)
        return PeakMemory(np.vstack([allocated, reserve[None]]), host)

    def _parameters(self) -> Floats:
        """Of a stage; a tied head on a stage of its own needs a copy of the embedding."""
        shape, alone = self.shape, self.plans.pipeline == 1
        ends = shape.embedding_parameters
        both = shape.embedding_parameters + shape.head_parameters
        found: Floats = self.blocks * shape.block_parameters + np.where(alone, both, ends)
        return found

    def _in_flight(self, first: bool) -> Floats:
        plans = self.plans
        ahead = np.minimum(plans.pipeline, plans.micro_batches) if first else np.ones(len(plans))
        return np.asarray(ahead, np.float64)

    def _passing(self, first: bool) -> tuple[Floats, Floats, Floats]:
        """Activations, logits and working memory at the worse of two moments.

        As the backward pass begins, behind the head, and inside the first block that it reaches,
        when what the head held is gone.
        """
        plans, head = self.plans, self._has_head(first)
        kept = np.where(plans.recompute, self.input_bytes, self.block_bytes)
        blocks = self._in_flight(first) * self.blocks * kept
        gathered, loose = self._unshared()
        logits = np.where(head, self._logits(), 0.0)
        at_head = (
            blocks + np.where(head, 2.0 * self.input_bytes, 0.0),
            logits,
            gathered + logits * (1.0 + self.bytes.activation / SINGLE_BYTES),
        )
        inside = (blocks, np.zeros(len(plans)), gathered + loose + self._inside_a_block())
        worse = sum(at_head) >= sum(inside)
        activations, seen, working = (
            np.asarray(np.where(worse, one, other))
            for one, other in zip(at_head, inside, strict=True)
        )
        return activations, seen, working

    def _logits(self) -> Floats:
        shape = self.shape
        numbers = shape.sequence * shape.vocabulary * self.samples / self.plans.tensor
        return np.asarray(SINGLE_BYTES * numbers)

    def _unshared(self) -> tuple[Floats, Floats]:
        """Weights gathered for computing, and gradients that are not yet shared out."""
        plans, size = self.plans, self.bytes
        block = self.shape.block_parameters / plans.tensor
        ends = self._parameters() / plans.tensor - self.blocks * block
        some = np.minimum(GATHERED_BLOCKS, self.blocks) * block
        gathered = np.where(plans.stage == FSDP2, size.weight * (some + ends), 0.0)
        loose = np.where((plans.stage > 1) | plans.offload, size.gradient * some, 0.0)
        return np.asarray(gathered), np.asarray(loose)

    def _inside_a_block(self) -> Floats:
        """What it computes anew but for its input, which is kept, and the gradients it hands on:
        of activations, and of one matrix until it is added to the others."""
        shape, plans = self.shape, self.plans
        matrix = self.bytes.gradient * shape.hidden * shape.inner / plans.tensor
        anew = np.where(plans.recompute, self.block_bytes - self.input_bytes, 0.0)
        inner = (2.0 if shape.gated else 1.0) * shape.inner / shape.hidden
        return np.asarray(anew + self.input_bytes * (2.0 + inner / plans.tensor) + matrix)

    def _has_head(self, first: bool) -> Bools:
        return np.asarray((self.plans.pipeline == 1) | (not first), np.bool_)
