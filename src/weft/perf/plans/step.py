"""How long a step takes under a plan: what is computed, sent, waited for and written back.

The form goes back to Rubick's and differs from it in four ways. A pipeline of p stages and m
micro-batches works in (m + p - 1) / m of the time that its stages would need without gaps.
Bandwidth follows from where ranks sit (`layout`), not from one constant between nodes. ZeRO's
second half, fetching what others have updated, hides behind nothing. And nothing is measured per
plan: one compute time serves all of them.

Fifteen quantities of a job are unknown. Each is believed to be about so much, by its shape and by
what the fabric measured; points move the belief (`fit`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from weft.model.errors import SpecError
from weft.model.plan import ExecutionPlan
from weft.model.shape import ModelShape
from weft.perf.plans.columns import Bools, Floats, Ints, PlanColumns
from weft.perf.plans.fabric import Fabric
from weft.perf.plans.layout import loads


class Part(IntEnum):
    """Unknown quantities of one job, all positive; their logarithms are what is fitted."""

    COMPUTE = 0
    """Seconds of forward and backward pass of the whole batch on one GPU."""
    FORWARD = 1
    """Share of the forward pass in it."""
    FIXED = 2
    """Seconds of every pass that no GPU shortens."""
    UPDATE = 3
    """Seconds of the optimizer per parameter of a GPU."""
    SPLIT_UPDATE = 4
    """The same in a program that splits the model."""
    CARD = 5
    """Bandwidth of a network card over what the fabric says."""
    LINK = 6
    """Bandwidth inside a node over what the fabric says."""
    OVERLAP = 7
    """How well sending hides behind computing: 0 is not at all."""
    CPU = 8
    """Seconds of the optimizer on the host per parameter and core."""
    SWAP = 9
    """Seconds per parameter to and from the host."""
    PAUSE = 10
    """Seconds of a step with offload that nothing shortens."""
    TENSOR = 11
    """Seconds that tensor ranks exchange activations, per sample."""
    HOP = 12
    """Seconds from one stage to the next, per sample."""
    SPLIT = 13
    """Compute time of the program that splits the model over that of the one that does not."""
    LATENCY = 14
    """Seconds for each node beyond the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a step does, whatever the plan."""

    shape: ModelShape
    batch: int
    sync_bytes: int = 4
    """Bytes per parameter that replicas exchange: gradients are summed in single precision."""


@dataclass(frozen=True, slots=True)
class Cases:
    """Plans where they would sit: one row per plan, placement and number of cores."""

    plans: PlanColumns
    nodes: Ints
    cores: Floats
    """Per GPU."""

    tensor_load: Floats
    data_load: Floats
    shard_load: Floats
    replica_load: Floats

    @classmethod
    def of(
        cls,
        plans: Sequence[ExecutionPlan],
        placements: Sequence[tuple[int, ...]],
        cores: Sequence[float],
        fabric: Fabric,
    ) -> "Cases":
        """`placements` are GPUs by node."""
        columns = PlanColumns.of(plans, [sum(counts) for counts in placements])
        return cls.laid(columns, placements, np.asarray(cores, np.float64), fabric)

    @classmethod
    def laid(
        cls,
        plans: PlanColumns,
        placements: Sequence[tuple[int, ...]],
        cores: Floats,
        fabric: Fabric,
    ) -> "Cases":
        """Columns of plans where they would sit."""
        if not np.all(cores > 0.0):
            raise SpecError(
                "a GPU without a core beside it cannot be fed", hint="give cores above 0"
            )
        degrees = zip(
            plans.data.tolist(), plans.tensor.tolist(), plans.pipeline.tolist(), strict=True
        )
        found = [
            loads(degree, shards, counts, fabric)
            for degree, shards, counts in zip(
                degrees, plans.shards.tolist(), placements, strict=True
            )
        ]
        rows = np.array(
            [(one.tensor, one.data, one.shard, one.replica) for one in found], np.float64
        ).reshape(-1, 4)
        nodes = np.array([len(counts) for counts in placements], np.int64)
        return cls(plans, nodes, cores, *rows.T)

    def __len__(self) -> int:
        return len(self.nodes)

    def take(self, rows: Ints | Bools) -> "Cases":
        return Cases(
            self.plans.take(rows),
            self.nodes[rows],
            self.cores[rows],
            self.tensor_load[rows],
            self.data_load[rows],
            self.shard_load[rows],
            self.replica_load[rows],
        )


USABLE_FLOPS = 0.4
"""Of the peak, what training is believed to reach."""

SWAPPED_BYTES = 5.0
"""Per parameter and step: gradients out, weights in, and what does not go at full speed."""


def believed(work: Work, fabric: Fabric) -> tuple[Floats, Floats]:
    """Logarithms of all parts before anything is measured, and how far off they may be."""
    shape = work.shape
    tokens = work.batch * shape.sequence
    passed = 2.0 * shape.sequence * shape.hidden
    beliefs: dict[Part, tuple[float, float]] = {
        Part.COMPUTE: (6.0 * shape.parameters * tokens / (USABLE_FLOPS * fabric.gpu_flops), 1.0),
        Part.FORWARD: (0.33, 0.1),
        Part.FIXED: (0.04, 0.7),
        Part.UPDATE: (6e-11, 0.6),
        Part.SPLIT_UPDATE: (3e-11, 0.5),
        Part.CARD: (1.0, 0.12),
        Part.LINK: (1.0, 0.3),
        Part.OVERLAP: (0.2, 0.7),
        Part.CPU: (4e-9, 1.0),
        Part.SWAP: (SWAPPED_BYTES / fabric.host_bandwidth, 0.4),
        Part.PAUSE: (0.02, 0.5),
        Part.TENSOR: (shape.layers * (1.5e-4 + 16.0 * passed / fabric.link_bandwidth), 0.6),
        Part.HOP: (1e-3 + 3.0 * passed / fabric.card_bandwidth, 0.8),
        Part.SPLIT: (1.0, 0.6),
        Part.LATENCY: (0.004, 0.5),
    }
    centres = np.array([math.log(beliefs[part][0]) for part in Part])
    return centres, np.array([beliefs[part][1] for part in Part])


def step_seconds(logs: Floats, cases: Cases, work: Work, fabric: Fabric) -> Floats:
    """Of each case, with these logarithms of the parts."""
    return _Step(np.exp(logs), cases, work, fabric).seconds()


class _Step:
    """One step of each case; cases are rows throughout."""

    def __init__(self, parts: Floats, cases: Cases, work: Work, fabric: Fabric) -> None:
        self.parts, self.cases, self.plans, self.work = parts, cases, cases.plans, work
        plans = cases.plans
        self.split = (plans.tensor > 1) | (plans.pipeline > 1)
        self.samples = work.batch / plans.data
        self.numbers = work.shape.parameters / (plans.tensor * plans.pipeline)
        micro = plans.micro_batches
        self.bubble = (micro + plans.pipeline - 1) / micro
        self.per_link = 1.0 / (fabric.link_bandwidth * parts[Part.LINK])
        self.per_card = 1.0 / (fabric.card_bandwidth * parts[Part.CARD])

    def seconds(self) -> Floats:
        parts, plans = self.parts, self.plans
        forward, backward = self._compute()
        behind_forward, behind_backward, bare = self._exchange()
        exponent = np.where(self.split & (plans.stage == 0), 1.0, 1.0 + parts[Part.OVERLAP])
        return np.asarray(
            _norm(forward, behind_forward, exponent)
            + _norm(backward, behind_backward, exponent)
            + bare
            + self._activations()
            + self._update()
            + parts[Part.FIXED] * plans.accumulation
            + self._latency()
        )

    def _compute(self) -> tuple[Floats, Floats]:
        parts, plans = self.parts, self.plans
        whole = parts[Part.COMPUTE] * np.where(self.split, parts[Part.SPLIT], 1.0)
        own = whole * self.bubble / plans.width
        forward = own * parts[Part.FORWARD]
        again = np.where(plans.recompute, forward, 0.0)
        return forward, own * (1.0 - parts[Part.FORWARD]) + again

    def _activations(self) -> Floats:
        """Tensor ranks, whose exchange everything waits for, and the way from stage to stage."""
        parts, plans, cases = self.parts, self.plans, self.cases
        tensor = parts[Part.TENSOR] * self.samples * (1.0 - 1.0 / plans.tensor)
        slower = np.maximum(1.0, cases.tensor_load * self.per_card / self.per_link)
        again = np.where(plans.recompute, 1.5, 1.0)
        hops = parts[Part.HOP] * self.samples / plans.micro_batches * (plans.pipeline - 1)
        return np.asarray(tensor * slower * again * self.bubble / plans.pipeline + hops)

    def _exchange(self) -> tuple[Floats, Floats, Floats]:
        """Seconds behind the forward pass, behind the backward pass, and behind nothing.

        An all-reduce is two halves: sums are scattered, then gathered. Without shards both are
        behind the backward pass. With them sums are scattered there, and what others have updated
        is gathered after it, or, with shared-out weights, in both passes.
        """
        plans, cases, steps = self.plans, self.cases, self.plans.accumulation
        whole = self._half(plans.data, cases.data_load, 1.0)
        group = self._half(plans.shards, cases.shard_load, 1.0)
        across = 2.0 * self._half(plans.data // plans.shards, cases.replica_load, plans.shards)
        shared = plans.stage > 0
        gathers = plans.stage > 2  # noqa: PLR2004 - ZeRO's third stage
        scatters = np.where(plans.stage > 1, steps, 1)
        forward = np.where(gathers, group * steps, 0.0)
        sharded = group * scatters + np.where(gathers, group * steps, 0.0) + across
        backward = np.where(shared, sharded, 2.0 * whole)
        bare = np.where(shared & ~gathers, group, 0.0)
        return forward, backward, bare

    def _half(self, members: Ints, load: Floats, cut: Ints | float) -> Floats:
        """One pass around a ring: of `1 / cut` of the numbers."""
        volume = self.work.sync_bytes * self.numbers / cut * (1.0 - 1.0 / members)
        return np.asarray(volume * np.maximum(self.per_link, load * self.per_card))

    def _update(self) -> Floats:
        parts, plans = self.parts, self.plans
        own = self.numbers / np.where(plans.stage > 0, plans.shards, 1)
        each = np.where(self.split, parts[Part.SPLIT_UPDATE], parts[Part.UPDATE])
        host = parts[Part.CPU] * own / self.cases.cores
        host = host + parts[Part.SWAP] * self.numbers + parts[Part.PAUSE]
        return np.asarray(np.where(plans.offload, host, each * own))

    def _latency(self) -> Floats:
        """Shards are exchanged twice, and the second time nothing hides it."""
        waits = (self.plans.data > 1) & ~self.plans.offload & ~self.split
        turns = np.where(self.plans.stage > 0, 2.0, 1.0)
        waited = turns * self.parts[Part.LATENCY] * (self.cases.nodes - 1)
        return np.asarray(np.where(waits, waited, 0.0))


def _norm(one: Floats, other: Floats, exponent: Floats) -> Floats:
    """Two activities side by side: their sum at exponent 1, the longer one far above it."""
    most = np.maximum(np.maximum(one, other), 1e-300)
    return np.asarray(
        most * ((one / most) ** exponent + (other / most) ** exponent) ** (1.0 / exponent)
    )
