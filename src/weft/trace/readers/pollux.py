"""Workloads of Pollux and Sia: who comes when, with what, on how many replicas.

They hold arrivals only: how long a job runs follows from its application's measured curves and
from the scheduler itself. Without a duration model a row is therefore no job yet; `durations`
gives seconds at the asked width by application.
"""

from weft.trace.cells import read_width
from weft.trace.readers.options import Options
from weft.trace.reading import Reading
from weft.trace.workload import JobColumns, works_of_seconds

COLUMNS = frozenset({"name", "time", "application", "num_replicas", "batch_size"})


def translate(reading: Reading, options: Options) -> JobColumns:
    models = reading.texts("application", missing="name its application")
    return JobColumns(
        ids=reading.texts("name", missing="name every job"),
        submit_seconds=reading.numbers("time", missing="write when it was submitted"),
        widths=reading.parsed(
            "num_replicas", read_width, missing="write its GPUs", remedy="write whole GPUs"
        ),
        works=works_of_seconds(
            reading,
            "duration",
            reading.numbers("duration"),
            models=models,
            durations=options.durations,
        ),
        more={"model": models},
        notes=("durations were given by application, not by the file",),
    )
