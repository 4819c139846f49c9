"""Tiresias' job lists: one row per job, seconds, the model by name."""

from weft.trace.cells import read_width
from weft.trace.readers.options import Options
from weft.trace.reading import Reading
from weft.trace.workload import JobColumns, works_of_seconds

COLUMNS = frozenset({"job_id", "num_gpu", "submit_time", "duration", "model_name"})


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
    )
