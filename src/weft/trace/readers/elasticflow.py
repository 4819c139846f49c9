"""ElasticFlow's traces: jobs with deadlines, in three shapes of one table (seconds).

The shapes differ in whether they repeat iterations and durations as `real_*` and in a flag for
best-effort jobs, whose deadline does not count. Deadlines are kept as `Recorded`.
"""

from weft.trace.cells import read_flag, read_width
from weft.trace.readers.options import Options
from weft.trace.reading import Reading
from weft.trace.workload import JobColumns, works_of_seconds

COLUMNS = frozenset(
    {"job_id", "submit_time", "iteration", "model_name", "ddl", "num_gpu", "duration"}
)


def translate(reading: Reading, options: Options) -> JobColumns:
    models = reading.texts("model_name")
    seconds = reading.numbers("duration", remedy="write seconds")
    return JobColumns(
        ids=reading.texts("job_id", missing="name every job"),
        submit_seconds=reading.numbers("submit_time", missing="write when it was submitted"),
        widths=reading.parsed(
            "num_gpu", read_width, missing="write its GPUs", remedy="write whole GPUs"
        ),
        works=works_of_seconds(
            reading, "duration", seconds, models=models, durations=options.durations
        ),
        more={"model": models},
        recorded={"deadline_seconds": _deadlines(reading)},
    )


def _deadlines(reading: Reading) -> list[float | None]:
    deadlines = reading.numbers("ddl", remedy="write seconds")
    best_effort = reading.parsed("best_effort", read_flag, remedy="write 0 or 1")
    return [
        None if relaxed else deadline
        for deadline, relaxed in zip(deadlines, best_effort, strict=True)
    ]
