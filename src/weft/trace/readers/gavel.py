"""Gavel's traces: seven tab-separated columns without a header, work counted in steps.

Steps become seconds through measured throughputs by (job type, GPUs) on one reference GPU type.
The table is given, or found beside the traces; a job type and width that nobody measured has no
duration and is reported. `gpu_speeds` turns the table's other GPU types into accepted types.
"""

import json
from ast import literal_eval
from collections.abc import Mapping, Sequence
from pathlib import Path

from weft.model.errors import TraceFault
from weft.model.ids import GpuType
from weft.model.request import GpuSpeed
from weft.model.truth import Work
from weft.trace.cells import read_width
from weft.trace.faults import OnFault
from weft.trace.readers.options import Options
from weft.trace.reading import Reading
from weft.trace.sheet import load
from weft.trace.workload import JobColumns, Workload, assemble

HEADER = (
    "job_type",
    "command",
    "steps_argument",
    "needs_data",
    "total_steps",
    "arrival_time",
    "scale_factor",
)
REFERENCE = "v100"
TYPES = ("v100", "p100", "k80")
TABLE_NAME = "simulation_throughputs.json"
ALONE = "null"

Throughputs = Mapping[str, Mapping[tuple[str, int], float]]


def read_gavel(
    path: Path,
    *,
    throughputs: Path | None = None,
    gpu_speeds: bool = False,
    on_fault: OnFault = "raise",
) -> Workload:
    """A trace; with `gpu_speeds` jobs run on V100, P100 and K80 only, at measured speeds."""
    reading = Reading(load(path).renamed(HEADER))
    options = Options(throughputs=throughputs)
    return assemble(reading, _columns(reading, options, gpu_speeds=gpu_speeds), on_fault)


def read_throughputs(path: Path) -> dict[str, dict[tuple[str, int], float]]:
    """Steps per second of a job alone, by GPU type, then (job type, GPUs); zeros are left out."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        return {
            gpu: {
                literal_eval(key): speeds[ALONE]
                for key, speeds in by_job.items()
                if speeds.get(ALONE, 0) > 0
            }
            for gpu, by_job in table.items()
        }
    except (OSError, ValueError, SyntaxError, AttributeError, TypeError) as error:
        raise TraceFault(
            f"{path}: is no table of throughputs: {error}",
            hint="give JSON of GPU type → (job type, GPUs) → {'null': steps per second}",
        ) from error


def translate(reading: Reading, options: Options) -> JobColumns:
    return _columns(reading, options, gpu_speeds=False)


def _columns(reading: Reading, options: Options, *, gpu_speeds: bool) -> JobColumns:
    source = options.throughputs or _beside(reading.sheet.path)
    table: Throughputs = read_throughputs(source) if source else {}
    virtual_cluster = reading.sheet.name
    models = reading.texts("job_type", missing="name its type")
    widths = reading.parsed(
        "scale_factor", read_width, missing="write its GPUs", remedy="write whole GPUs"
    )
    keys = [
        (model, width.asked_gpus if width else 0)
        for model, width in zip(models, widths, strict=True)
    ]
    more: dict[str, Sequence[object]] = {"model": models}
    if gpu_speeds:
        more["gpu_types"] = [_speeds(table, key) for key in keys]
    return JobColumns(
        ids=[f"{virtual_cluster}-{index}" for index in range(len(reading))],
        submit_seconds=reading.numbers("arrival_time", missing="write when it was submitted"),
        widths=widths,
        works=_works(reading, keys, table.get(REFERENCE, {}), options.durations),
        tenants=[virtual_cluster] * len(reading),
        more=more,
        notes=(f"durations: steps over the {REFERENCE} throughputs of {source}",) if source else (),
    )


def _beside(path: Path) -> Path | None:
    for folder in (path.parent, path.parent.parent):
        if (folder / TABLE_NAME).is_file():
            return folder / TABLE_NAME
    return None


def _works(
    reading: Reading,
    keys: Sequence[tuple[str, int]],
    rates: Mapping[tuple[str, int], float],
    durations: Mapping[str, float],
) -> list[Work | None]:
    remedy = "give throughputs that hold it" if rates else f"give throughputs={TABLE_NAME}"
    works: list[Work | None] = []
    for index, steps in enumerate(reading.numbers("total_steps", missing="write its steps")):
        model, gpus = keys[index]
        rate = rates.get(keys[index])
        seconds = steps / rate if steps is not None and rate else durations.get(model)
        if seconds is None and steps is not None:
            problem = f"duration unknown: no {REFERENCE} throughput of {model} on {gpus} GPUs"
            reading.log.error(index, "total_steps", f"{steps:g}", problem=problem, remedy=remedy)
        works.append(None if seconds is None else Work(seconds))
    return works


def _speeds(table: Throughputs, key: tuple[str, int]) -> tuple[GpuSpeed, ...] | None:
    reference = table.get(REFERENCE, {}).get(key)
    if reference is None:
        return None
    rates = {gpu: table.get(gpu, {}).get(key) for gpu in TYPES}
    return tuple(
        GpuSpeed(GpuType(gpu), rate / reference) for gpu, rate in rates.items() if rate is not None
    )
