"""Rubick's measured steps: seven models, their plans and placements.

`ga` is plain data parallelism: its number of accumulation steps is in no file, and the authors'
own scripts take it for 1. Pipelines run one micro-batch per step: times do not fall with their
depth. Offload ran with four cores per GPU. Two kinds of rows are told apart by the table itself,
without any forecast:

- *disturbed*: the row's own forward pass, which sends nothing, took over 1.2 times as long as that
  of the same plan on as many GPUs elsewhere;
- *another batch*: one GPU took less than 1.25 times as long as two of the same node.
"""

import csv
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from weft.model.plan import ExecutionPlan, Sharding
from weft.model.shape import ModelShape
from weft.perf.plans.fabric import Fabric
from weft.perf.plans.step import Work

FABRIC = Fabric()
"""Eight A800 with 150 GB/s between them, four cards of 20 GB/s: as the authors' all-reduce says."""

CORES = 4.0
DISTURBED = 1.2
ANOTHER_BATCH = 1.25


def _work(batch: int, parameters: int, layers: int, hidden: int, sequence: int) -> Work:
    shape = ModelShape(parameters=parameters, layers=layers, hidden=hidden, sequence=sequence)
    return Work(shape=shape, batch=batch)


WORKS = {
    "vit": _work(64, 85_952_456, 12, 768, 197),
    "roberta": _work(64, 355_412_057, 24, 1024, 512),
    "bert": _work(64, 336_297_858, 24, 1024, 512),
    "t5": _work(16, 1_240_809_472, 32, 1024, 512),
    "gpt2": _work(16, 1_557_686_400, 48, 1600, 1024),
    "llama7": _work(8, 6_738_423_808, 32, 4096, 2048),
    "llama30": _work(4, 33_170_309_120, 60, 6656, 2048),
}
PLANS = {
    "ga": ExecutionPlan(),
    "gc": ExecutionPlan(recompute=True),
    "zero-dp": ExecutionPlan(sharding=Sharding.GRADIENTS),
    "zero-offload": ExecutionPlan(sharding=Sharding.GRADIENTS, offload=True),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """One row of a table."""

    name: str
    plan: ExecutionPlan
    counts: tuple[int, ...]
    seconds: float
    forward: float

    @property
    def gpus(self) -> int:
        return sum(self.counts)

    @property
    def regular(self) -> bool:
        """As many GPUs on every node; of replicas two or more, which use its links as well."""
        least = 1 if self.plan.gpus_per_replica > 1 else 2
        return min(self.counts) >= least and len(set(self.counts)) == 1


def measured(traces: Path, model: str) -> list[Measured]:
    """All rows of one model that have a time."""
    with (traces / "rubick" / "throughput" / f"{model}.csv").open() as lines:
        rows = [_read(row) for row in csv.DictReader(lines)]
    return [row for row in rows if row.seconds > 0.0]


def _read(row: dict[str, str]) -> Measured:
    name = row["exec_plan"]
    return Measured(
        name=name,
        plan=plan_of(name),
        counts=tuple(int(digit) for digit in row["placement"]),
        seconds=float(row["iter_time"]),
        forward=float(row["forward"]),
    )


def plan_of(name: str) -> ExecutionPlan:
    """Three digits are stages, tensor ranks and replicas."""
    if name in PLANS:
        return PLANS[name]
    pipeline, tensor, data = (int(digit) for digit in name)
    return ExecutionPlan(pipeline=pipeline, tensor=tensor, data=data)


def disturbed(rows: list[Measured]) -> list[bool]:
    """By the row's own forward pass."""
    least: dict[tuple[str, int], float] = defaultdict(lambda: float("inf"))
    for row in rows:
        key = row.name, row.gpus
        least[key] = min(least[key], row.forward)
    return [row.forward > DISTURBED * least[row.name, row.gpus] for row in rows]


def of_another_batch(rows: list[Measured]) -> list[bool]:
    """One GPU that does in the time of two what they do."""
    two = {row.name: row.seconds for row in rows if row.counts == (2,)}
    return [
        row.counts == (1,) and row.seconds < ANOTHER_BATCH * two.get(row.name, 0.0) for row in rows
    ]
