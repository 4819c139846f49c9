"""Rubick's tables as the truth about a job: seconds of a step by plan and placement.

What was measured is looked up. Plans are offered at widths at which they were measured and at no
others, so only a placement can be unknown: then the measured one that is most like it stands for
it, made slower by as much as a form that was fitted to the whole table says, never faster.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from benchmarks.plans.tables import CORES, FABRIC, WORKS, measured
from weft.model.plan import AS_WRITTEN, ExecutionPlan
from weft.perf.plans.columns import PlanColumns
from weft.perf.plans.fit import StepModel, fitted, unmeasured
from weft.perf.plans.options import counted
from weft.perf.plans.step import Cases

Where = tuple[int, ...]


@dataclass(slots=True)
class Table:
    """One model: seconds by plan (its replicas counted) and GPUs by node."""

    batch: int
    seconds: Mapping[tuple[ExecutionPlan, Where], float]
    form: StepModel
    _known: dict[tuple[ExecutionPlan, Where], float] = field(default_factory=dict)

    @classmethod
    def of(cls, traces: Path, model: str) -> "Table":
        rows = measured(traces, model)
        cases = Cases.of(
            [row.plan for row in rows], [row.counts for row in rows], [CORES] * len(rows), FABRIC
        )
        form = fitted(
            cases, np.array([row.seconds for row in rows]), unmeasured(WORKS[model], FABRIC)
        )
        found: dict[tuple[ExecutionPlan, Where], float] = {}
        for row in rows:
            key = counted(row.plan, row.gpus), tuple(sorted(row.counts, reverse=True))
            found[key] = min(row.seconds, found.get(key, float("inf")))
        return cls(WORKS[model].batch, found, form)

    @property
    def plans(self) -> tuple[ExecutionPlan, ...]:
        """All that were measured, with their replicas counted."""
        return tuple(sorted({plan for plan, _ in self.seconds}, key=repr))

    def step(self, plan: ExecutionPlan, where: Where) -> float:
        """Infinite where the plan was never measured at that width."""
        key = plan, where
        if key not in self._known:
            self._known[key] = self._look(plan, where)
        return self._known[key]

    def _look(self, plan: ExecutionPlan, where: Where) -> float:
        if (plan, where) in self.seconds:
            return self.seconds[plan, where]
        alike = [known for own, known in self.seconds if own == plan and sum(known) == sum(where)]
        if not alike:
            return float("inf")
        nearest = min(alike, key=lambda known: (abs(len(known) - len(where)), known))
        slower = self._form(plan, where) / self._form(plan, nearest)
        return self.seconds[plan, nearest] * max(slower, 1.0)

    def _form(self, plan: ExecutionPlan, where: Where) -> float:
        columns = PlanColumns.of([plan], [sum(where)])
        cases = Cases.laid(columns, [where], np.array([CORES]), FABRIC)
        return float(self.form.seconds(cases)[0])


@dataclass(frozen=True, slots=True)
class MeasuredSteps:
    """The truth of one job: a table, and the plan that it was submitted with."""

    table: Table
    submitted: ExecutionPlan

    def samples_per_second(self, plan: ExecutionPlan, gpus_by_node: Where, cores: float) -> float:
        own = self.submitted if plan == AS_WRITTEN else plan
        if not own.fits_width(sum(gpus_by_node)):
            own = replace(own, data=0)
        own = counted(own, sum(gpus_by_node))
        return self.table.batch / self.table.step(own, gpus_by_node)

    def as_asked(self, gpus: int) -> float:
        return self.samples_per_second(AS_WRITTEN, FABRIC.filled(gpus), CORES)


@lru_cache(maxsize=16)
def table(traces: Path, model: str) -> Table:
    return Table.of(traces, model)
