"""Writing a workload in the project's own schema: CSV, gzipped CSV or Parquet, by the ending.

The same workload gives the same bytes, so that a file can be named by its hash: gzip gets no
time stamp, and numbers are written in the shortest form that reads back as themselves.
"""

import csv
import gzip
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from weft.model.errors import SpecError
from weft.trace.schema import COLUMNS, Kind, tabulate
from weft.trace.workload import Workload

_TYPED: Mapping[Kind, Callable[[str], str | float | int | bool]] = {
    Kind.NUMBER: float,
    Kind.WHOLE: int,
    Kind.FLAG: lambda cell: cell == "true",
}


def write(workload: Workload, path: Path) -> None:
    """Write `.csv`, `.csv.gz` or `.parquet`."""
    table = tabulate(workload)
    if path.suffix == ".parquet":
        from weft.trace import parquet

        parquet.save(path, {name: _typed(name, cells) for name, cells in table.items()})
    elif path.name.endswith(".csv.gz"):
        path.write_bytes(gzip.compress(_csv_bytes(table), mtime=0))
    elif path.suffix == ".csv":
        path.write_bytes(_csv_bytes(table))
    else:
        raise SpecError(
            f"no job table is written as '{path.name}'", hint="end it in .csv, .csv.gz or .parquet"
        )


def _csv_bytes(table: Mapping[str, Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return text.getvalue().encode()


def _typed(name: str, cells: Sequence[str]) -> list[str | float | int | bool | None]:
    kind = next(column.kind for column in COLUMNS if column.name == name)
    convert = _TYPED.get(kind)
    if convert is None:
        return list(cells)
    return [convert(cell) if cell else None for cell in cells]
