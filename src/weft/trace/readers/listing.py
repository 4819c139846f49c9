"""Public traces in one shape: `job_id, tenant, submit_time_s, duration_s, num_gpus, …`.

Philly, Alibaba's openb and DLRM, Acme, Helios and others come as such lists; an empty cell means
unknown. A tenant is a virtual cluster or an organisation. CPUs and memory are totals of the job,
and become amounts per GPU where it has GPUs. A GPU type is a demand: only such nodes will do.
"""

from collections.abc import Sequence

from weft.model.request import Width
from weft.trace.cells import read_gpu_types, read_width
from weft.trace.readers.options import Options
from weft.trace.reading import Reading
from weft.trace.workload import JobColumns, works_of_seconds

COLUMNS = frozenset({"job_id", "tenant", "submit_time_s", "duration_s", "num_gpus"})
MIB_PER_GIB = 1024.0
WHOLE_GPUS = "a job holds whole GPUs: round up, or leave it out"
FROM_ZERO = "shift all times so that the first job comes at 0"


def translate(reading: Reading, options: Options) -> JobColumns:
    models = reading.texts("model")
    seconds = reading.numbers("duration_s", remedy="write seconds of running")
    widths = reading.parsed("num_gpus", read_width, missing="write its GPUs", remedy=WHOLE_GPUS)
    cpus = reading.numbers("num_cpus")
    memory = (
        reading.numbers("memory_mib", per=MIB_PER_GIB)
        if reading.has("memory_mib")
        else reading.numbers("memory_gib")
    )
    return JobColumns(
        ids=reading.texts("job_id", missing="name every job"),
        submit_seconds=reading.numbers(
            "submit_time_s", missing="write when it was submitted", remedy=FROM_ZERO
        ),
        widths=widths,
        works=works_of_seconds(
            reading, "duration_s", seconds, models=models, durations=options.durations
        ),
        tenants=reading.texts("tenant"),
        more={
            "cpus": without_gpus(cpus, widths),
            "cpus_per_gpu": per_gpu(cpus, widths),
            "memory_gib": without_gpus(memory, widths),
            "memory_gib_per_gpu": per_gpu(memory, widths),
            "gpu_types": reading.parsed("gpu_type", read_gpu_types, remedy="name a GPU type"),
            "model": models,
        },
        recorded={
            "status": reading.texts("status"),
            "failure_reason": reading.texts("failure_reason"),
            "attempts": reading.wholes("attempts"),
            "queue_seconds": reading.numbers("queue_delay_s"),
            "deadline_seconds": reading.numbers("deadline_s"),
        },
    )


def per_gpu(totals: Sequence[float | None], widths: Sequence[Width | None]) -> list[float | None]:
    """A job's total shared out over its GPUs; None where it has none."""
    return [
        total / width.asked_gpus if total is not None and width and width.asked_gpus else None
        for total, width in zip(totals, widths, strict=True)
    ]


def without_gpus(
    totals: Sequence[float | None], widths: Sequence[Width | None]
) -> list[float | None]:
    """A job's total where it has no GPUs to share it out over."""
    return [
        total if width and not width.asked_gpus else None
        for total, width in zip(totals, widths, strict=True)
    ]
