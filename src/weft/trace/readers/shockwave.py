"""Shockwave's traces: twelve tab-separated columns without a header, durations included.

Jobs are numbered by row, as in the published results. Two thirds change their batch size while
they train (`accordion`, `gns`); the duration already counts that, so the mode is only noted.
"""

from collections import Counter

from weft.trace.cells import read_width
from weft.trace.readers.options import Options
from weft.trace.reading import Reading
from weft.trace.workload import JobColumns, works_of_seconds

HEADER = (
    "job_type",
    "command",
    "working_directory",
    "steps_argument",
    "needs_data",
    "total_steps",
    "scale_factor",
    "mode",
    "priority_weight",
    "slo",
    "duration",
    "arrival_time",
)


def translate(reading: Reading, options: Options) -> JobColumns:
    models = reading.texts("job_type", missing="name its type")
    modes = Counter(reading.texts("mode"))
    return JobColumns(
        ids=[str(index) for index in range(len(reading))],
        submit_seconds=reading.numbers("arrival_time", missing="write when it was submitted"),
        widths=reading.parsed(
            "scale_factor", read_width, missing="write its GPUs", remedy="write whole GPUs"
        ),
        works=works_of_seconds(
            reading,
            "duration",
            reading.numbers("duration", remedy="write seconds"),
            models=models,
            durations=options.durations,
        ),
        more={"model": models},
        notes=tuple(f"{count} jobs adapt their batch by '{mode}'" for mode, count in modes.items()),
    )
