"""Many plans at once, as columns: one row per plan.

A model of 70 billion parameters has tens of thousands of legal plans on up to 64 GPUs. As columns
they are judged in milliseconds; a row becomes an `ExecutionPlan` when somebody asks for it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from weft.model.capability import NOT_YET, needs
from weft.model.errors import InfeasibleSpec
from weft.model.plan import ExecutionPlan, Sharding

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

STAGES = (Sharding.NONE, Sharding.OPTIMIZER, Sharding.GRADIENTS, Sharding.PARAMETERS)
"""ZeRO's stages by number: a later one shares out what the earlier ones do, and more."""


@dataclass(frozen=True, slots=True)
class PlanColumns:
    """Degrees of many plans; `stage` is ZeRO's, `shards` the replicas that share one copy."""

    data: Ints
    tensor: Ints
    pipeline: Ints
    stage: Ints
    shards: Ints
    accumulation: Ints
    micro_batches: Ints
    recompute: Bools
    offload: Bools

    @classmethod
    def of(cls, plans: Iterable[ExecutionPlan], widths: Iterable[int]) -> "PlanColumns":
        """These plans at these widths, which settle how many replicas each has."""
        rows = [_row(plan, width) for plan, width in zip(plans, widths, strict=True)]
        table = np.array(rows, np.int64).reshape(len(rows), len(fields(cls)))
        return cls.from_table(table)

    @classmethod
    def from_table(cls, table: Ints) -> "PlanColumns":
        """From rows of whole numbers, the switches as 0 and 1."""
        data, tensor, pipeline, stage, shards, steps, micro, recompute, offload = table.T
        switches = recompute.astype(np.bool_), offload.astype(np.bool_)
        return cls(data, tensor, pipeline, stage, shards, steps, micro, *switches)

    @property
    def table(self) -> Ints:
        """As `from_table` takes it."""
        return np.column_stack([getattr(self, field.name) for field in fields(self)]).astype(
            np.int64
        )

    def __len__(self) -> int:
        return len(self.data)

    @property
    def width(self) -> Ints:
        """GPUs: the product of the degrees."""
        return self.data * self.tensor * self.pipeline

    def take(self, rows: Ints | Bools) -> "PlanColumns":
        return PlanColumns(*(getattr(self, field.name)[rows] for field in fields(self)))

    def plan(self, row: int) -> ExecutionPlan:
        """One row as a plan."""
        data, shards = int(self.data[row]), int(self.shards[row])
        stage = STAGES[int(self.stage[row])]
        return ExecutionPlan(
            data=data,
            tensor=int(self.tensor[row]),
            pipeline=int(self.pipeline[row]),
            sharding=stage,
            accumulation_steps=int(self.accumulation[row]),
            recompute=bool(self.recompute[row]),
            offload=bool(self.offload[row]),
            micro_batches=int(self.micro_batches[row]),
            shard_degree=shards if stage is not Sharding.NONE and shards < data else 0,
        )

    def __iter__(self) -> Iterator[ExecutionPlan]:
        return (self.plan(row) for row in range(len(self)))


def _row(plan: ExecutionPlan, width: int) -> tuple[int, ...]:
    for capability in sorted(needs(plan).intersection(NOT_YET)):
        raise InfeasibleSpec(NOT_YET[capability], hint="leave that degree at 1")
    if width < 1 or not plan.fits_width(width):
        raise InfeasibleSpec(
            f"{width} GPUs do not divide into replicas of {plan.gpus_per_replica}",
            hint="choose degrees whose product is the width",
        )
    data = plan.data or width // plan.gpus_per_replica
    stage = STAGES.index(plan.sharding)
    shards = (plan.shard_degree or data) if stage else 1
    return (
        *(data, plan.tensor, plan.pipeline, stage, shards),
        *(plan.accumulation_steps, plan.micro_batches, int(plan.recompute), int(plan.offload)),
    )
