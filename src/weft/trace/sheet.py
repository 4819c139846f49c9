"""A sheet: a table file as text, before anybody says what its columns mean.

CSV (separated by `,`, `;`, `|` or tabs) and TSV with a header, `.trace` files (tab-separated, no
header: their columns are numbered), each plain or gzipped; Parquet; Kueue's workloads as JSON. A
sheet keeps the row numbers of the file, so that a fault found much later can still be pointed at.
What makes a whole file unreadable is raised here and cannot be skipped: no header, a column named
twice, bytes that are no text.
"""

import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

from weft.model.errors import TraceFault
from weft.trace.units import ColumnUnit

DELIMITERS = ",;|\t"


@dataclass(frozen=True, slots=True)
class Sheet:
    """Columns of text by name; `ragged` maps a row's position to its number of cells.

    `units` has the columns whose plain numbers do not count seconds or GiB.
    """

    path: Path
    header: tuple[str, ...]
    columns: Mapping[str, Sequence[str]]
    rows: Sequence[int]
    ragged: Mapping[int, int] = field(default_factory=dict)
    numbered: bool = False
    units: Mapping[str, ColumnUnit] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return self.path.name.removesuffix(".gz").removesuffix(_kind(self.path))

    def renamed(self, header: tuple[str, ...]) -> "Sheet":
        """The same cells under other column names, in order."""
        columns = dict(zip(header, self.columns.values(), strict=True))
        return replace(self, header=header, columns=columns)


def load(path: Path) -> Sheet:
    """The file as a sheet, by its ending."""
    kind = _kind(path)
    try:
        if kind == ".parquet":
            from weft.trace import parquet

            return parquet.load(path)
        if kind == ".json":
            from weft.trace import kueue

            return kueue.load(path)
        with _open(path) as stream:
            return _load_text(path, stream, kind)
    except (OSError, EOFError, zlib.error) as error:
        raise TraceFault(f"{path}: cannot be read: {error}", hint="check path and file") from error
    except UnicodeDecodeError as error:
        raise TraceFault(f"{path}: is not UTF-8 text", hint="save it as UTF-8") from error
    except csv.Error as error:
        raise TraceFault(f"{path}: is not CSV: {error}", hint="check its quotes") from error


def made_of(name: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Sheet:
    """Cells that stand in no file, as a sheet of that name; its rows count from 1."""
    check_header(name, header)
    return _sheet(name, tuple(header), [list(row) for row in rows], [*range(1, len(rows) + 1)])


def check_header(path: Path, header: Sequence[str]) -> None:
    """Raise where a column has no name or shares it with another."""
    if not all(header):
        raise TraceFault(f"{path.name} row 1: a column has no name", hint="name every column")
    twice = [name for name, count in Counter(header).items() if count > 1]
    if twice:
        raise TraceFault(
            f"{path.name} row 1: column '{twice[0]}' is named twice",
            hint="rename or remove one of them",
        )


def _kind(path: Path) -> str:
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix


def _open(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _load_text(path: Path, stream: TextIO, kind: str) -> Sheet:
    first = stream.readline()
    stream.seek(0)
    reader = csv.reader(stream, **_dialect(kind, first))
    records: list[list[str]] = []
    rows: list[int] = []
    for record in reader:
        if record and (len(record) > 1 or record[0].strip()):
            records.append(record)
            rows.append(reader.line_num)
    if not records:
        raise TraceFault(f"{path.name}: is empty", hint="give a file with a header and rows")
    if kind == ".trace":
        header = tuple(str(number) for number in range(1, len(records[0]) + 1))
        return _sheet(path, header, records, rows, numbered=True)
    if _of_sacct(first) and not any(record[-1] for record in records):
        records = [record[:-1] for record in records]  # sacct -p ends every line with a separator
    header = tuple(name.strip() for name in records[0])
    check_header(path, header)
    return _sheet(path, header, records[1:], rows[1:])


def _dialect(kind: str, first: str) -> dict[str, Any]:
    """Sheets are quoted as CSV is, but for traces and what sacct prints: a quote is a letter there.

    A job name that begins with a quote would otherwise take in all rows up to the next quote.
    """
    if kind == ".trace":
        return {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    if _of_sacct(first):
        return {"delimiter": "|", "quoting": csv.QUOTE_NONE}
    return {"delimiter": _delimiter(kind, first), "strict": True}


def _of_sacct(header: str) -> bool:
    return "JobID" in header.strip().split("|")


def _delimiter(kind: str, header: str) -> str:
    """What separates the names of the header: most programs use one of four signs."""
    if kind == ".tsv":
        return "\t"
    found = max(DELIMITERS, key=header.count)
    return found if found in header else ","


def _sheet(
    path: Path,
    header: tuple[str, ...],
    records: list[list[str]],
    rows: list[int],
    *,
    numbered: bool = False,
) -> Sheet:
    width = len(header)
    ragged = {index: len(cells) for index, cells in enumerate(records) if len(cells) != width}
    for index in ragged:
        records[index] = (records[index] + [""] * width)[:width]
    cells: Iterable[Sequence[str]] = zip(*records, strict=True) if records else [()] * width
    return Sheet(path, header, dict(zip(header, cells, strict=True)), rows, ragged, numbered)
