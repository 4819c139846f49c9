"""Rubick's workloads: each job with the execution plan that its user chose.

A plan is three digits (pipeline, tensor, data) or a name. `ga` accumulates gradients over a
number of steps that the file does not tell, so it stays the plan as written. Jobs with `is_sla`
belong to the tenant that is guaranteed its resources, the others to best effort.
"""

from weft.model.plan import AS_WRITTEN, ExecutionPlan, Sharding
from weft.trace.cells import read_flag, read_width
from weft.trace.readers.listing import per_gpu
from weft.trace.readers.options import Options
from weft.trace.reading import Reading
from weft.trace.workload import JobColumns, works_of_seconds

COLUMNS = frozenset(
    {"name", "submission_time", "duration", "application", "num_gpus", "exec_plan", "is_sla"}
)
# The artifact runs ZeRO at stage 2, which shards gradients and optimizer state.
NAMED_PLANS = {
    "ga": AS_WRITTEN,
    "gc": ExecutionPlan(recompute=True),
    "zero-dp": ExecutionPlan(sharding=Sharding.GRADIENTS),
    "zero-offload": ExecutionPlan(sharding=Sharding.GRADIENTS, offload=True),
}
DIGITS = 3


def translate(reading: Reading, options: Options) -> JobColumns:
    models = reading.texts("application")
    widths = reading.parsed(
        "num_gpus", read_width, missing="write its GPUs", remedy="write whole GPUs"
    )
    guaranteed = reading.parsed("is_sla", read_flag, remedy="write 0 or 1")
    plans = reading.parsed(
        "exec_plan", read_plan, remedy=f"write three digits or one of {', '.join(NAMED_PLANS)}"
    )
    return JobColumns(
        ids=reading.texts("name", missing="name every job"),
        submit_seconds=reading.numbers("submission_time", missing="write when it was submitted"),
        widths=widths,
        works=works_of_seconds(
            reading,
            "duration",
            reading.numbers("duration", remedy="write seconds"),
            models=models,
            durations=options.durations,
        ),
        tenants=["guaranteed" if sla else "best-effort" for sla in guaranteed],
        more={
            "model": models,
            "plans": [None if plan is None else (plan,) for plan in plans],
            "cpus_per_gpu": per_gpu(reading.numbers("num_cpus"), widths),
        },
    )


def read_plan(cell: str) -> ExecutionPlan:
    """`344` is 3 pipeline stages × 4 tensor ranks × 4 replicas."""
    named = NAMED_PLANS.get(cell)
    if named is not None:
        return named
    if len(cell) != DIGITS or not (cell.isascii() and cell.isdigit()) or "0" in cell:
        raise ValueError("is no execution plan")
    pipeline, tensor, data = (int(digit) for digit in cell)
    return ExecutionPlan(pipeline=pipeline, tensor=tensor, data=data)
