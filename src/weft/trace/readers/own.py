"""The project's own job table, and a cluster's own log once its columns are named.

A log needs no conversion once its columns are mapped to ours (`weft.trace.mapping`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from weft.model.errors import SpecError
from weft.model.request import Locality, Width, WorkUnit
from weft.model.truth import Work
from weft.trace.cells import (
    read_curve,
    read_flag,
    read_gpu_types,
    read_plans,
    read_stages,
    read_width,
)
from weft.trace.readers.options import Options
from weft.trace.reading import Reading
from weft.trace.schema import COLUMNS, SCHEMA_VERSION, Column, Kind
from weft.trace.units import Dimension, dimension_of
from weft.trace.workload import JobColumns, works_of_seconds

# Columns that are read by name below; all others that become one field follow the schema.
BY_NAME = frozenset(
    {
        *("job_id", "tenant", "submit_seconds", "duration_seconds", "samples", "gpus"),
        *("work_known", "curve_known"),
    }
)
NEARLY = 0.8
FLAG_REMEDY = "write true or false"
CODES = {
    "gpu_types": read_gpu_types,
    "curve": read_curve,
    "plans": read_plans,
    "stages": read_stages,
}


def translate(reading: Reading, options: Options) -> JobColumns:
    """Columns of our schema as they stand."""
    _check_version(reading)
    _tell_misspelled(reading)
    return JobColumns(
        ids=reading.texts("job_id", missing="name every job"),
        submit_seconds=reading.moments("submit_seconds", missing="write when it was submitted"),
        widths=_widths(reading),
        works=_works(reading, options.durations),
        tenants=reading.texts("tenant"),
        more=_more(reading),
        recorded=_fields(reading, "recorded"),
    )


def _tell_misspelled(reading: Reading) -> None:
    """A column whose name is nearly one of ours takes no effect, and looks as if it did."""
    known = [column.name for column in COLUMNS]
    absent = [name for name in known if not reading.has(name)]
    for name in reading.sheet.header:
        near = get_close_matches(name.strip().lower(), absent, n=1, cutoff=NEARLY)
        if near and name not in known:
            problem = f"is no column of the job table and is not read; '{near[0]}' is one"
            remedy = f"if it is meant, rename it, or write --column {near[0]}={name}"
            reading.log.inform(name, problem=problem, remedy=remedy)


def _check_version(reading: Reading) -> None:
    for index, version in enumerate(reading.wholes("schema_version", least=1)):
        if version is not None and version > SCHEMA_VERSION:
            problem = f"is newer than this Weft, which reads up to {SCHEMA_VERSION}"
            reading.log.error(
                index, "schema_version", str(version), problem=problem, remedy="upgrade Weft"
            )


def _widths(reading: Reading) -> list[Width | None]:
    widths = reading.parsed(
        "gpus", read_width, missing="write its GPUs", remedy="write whole GPUs: 4, or 2..8"
    )
    asked = reading.wholes("asked_gpus")
    for index, (width, gpus) in enumerate(zip(widths, asked, strict=True)):
        if width is None or gpus is None:
            continue
        try:
            widths[index] = replace(width, asked_gpus=gpus)
        except SpecError as error:
            reading.log.error(index, "asked_gpus", str(gpus), problem=str(error), remedy=error.hint)
    _tell_unasked(reading, widths, asked)
    return widths


def _tell_unasked(
    reading: Reading, widths: Sequence[Width | None], asked: Sequence[int | None]
) -> None:
    """A length is that at the asked width, so a range without one may be more work than was meant.

    Whoever turns 4 into 1..8 to try elasticity has doubled the work of the job.
    """
    cells = reading.texts("duration_seconds")
    count = sum(
        width is not None and width.elastic and gpus is None and bool(cell)
        for width, gpus, cell in zip(widths, asked, cells, strict=True)
    )
    if count:
        counted = "1 range" if count == 1 else f"{count:,} ranges"
        lengths = "its length counts" if count == 1 else "their lengths count"
        problem = f"{counted} without asked_gpus: {lengths} at the larger end"
        remedy = "add a column asked_gpus with the GPUs on which each length was measured"
        reading.log.inform("gpus", problem=problem, remedy=remedy)


def _works(reading: Reading, durations: Mapping[str, float]) -> list[Work | None]:
    seconds = reading.spans("duration_seconds", remedy="write seconds at the asked width, or 1h30m")
    samples = reading.numbers("samples", remedy="write the samples it trains")
    for index, (duration, count) in enumerate(zip(seconds, samples, strict=True)):
        if duration is not None and count is not None:
            problem = "is given beside a duration"
            reading.log.error(
                index, "samples", f"{count:g}", problem=problem, remedy="give one of the two"
            )
    return works_of_seconds(
        reading,
        "duration_seconds",
        seconds,
        models=reading.texts("model"),
        durations=durations,
        instead=[None if count is None else Work(count, WorkUnit.SAMPLES) for count in samples],
    )


def _more(reading: Reading) -> dict[str, Sequence[Any]]:
    """What becomes of a row beside its name, width and work."""
    told: dict[str, Sequence[Any]] = {
        "tell_work": reading.parsed("work_known", read_flag, remedy=FLAG_REMEDY),
        "tell_curve": reading.parsed("curve_known", read_flag, remedy=FLAG_REMEDY),
        "locality": _localities(reading),
    }
    return _fields(reading, "request") | _fields(reading, "truth") | told


def _localities(reading: Reading) -> list[Locality | None]:
    by_nodes = reading.numbers("node_doubling_slowdown")
    by_racks = reading.numbers("rack_doubling_slowdown")
    return [_locality(nodes, racks) for nodes, racks in zip(by_nodes, by_racks, strict=True)]


def _locality(by_nodes: float | None, by_racks: float | None) -> Locality | None:
    if by_nodes is None and by_racks is None:
        return None
    default = Locality()
    return Locality(
        default.per_node_doubling if by_nodes is None else by_nodes,
        default.per_rack_doubling if by_racks is None else by_racks,
    )


def _fields(reading: Reading, owner: str) -> dict[str, Sequence[Any]]:
    found: dict[str, Sequence[Any]] = {}
    for column in COLUMNS:
        parent, _, name = column.becomes.partition(".")
        plain = parent == owner and "." not in name and column.name not in BY_NAME
        if plain and reading.has(column.name):
            found[name] = _cells(reading, column)
    return found


def _cells(reading: Reading, column: Column) -> Sequence[Any]:
    remedy = f"write {column.kind}: {column.meaning}"
    if column.kind is Kind.TEXT:
        absent = "" if column.becomes.startswith("recorded.") else None
        return [cell or absent for cell in reading.texts(column.name)]
    if column.kind is Kind.FLAG:
        return reading.parsed(column.name, read_flag, remedy=remedy)
    if column.kind is Kind.WHOLE:
        return reading.wholes(column.name, least=column.least, remedy=remedy)
    if column.kind is Kind.NUMBER and dimension_of(column.name) is Dimension.TIME:
        return reading.spans(column.name, remedy=f"write seconds, or 1h30m: {column.meaning}")
    if column.kind is Kind.NUMBER:
        return reading.numbers(column.name, least=column.least, remedy=remedy)
    return reading.parsed(column.name, CODES[column.name], remedy=remedy)
