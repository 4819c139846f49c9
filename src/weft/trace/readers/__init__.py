"""Readers of job files: one small translation of columns per format, and one door to them all.

`read(path)` recognises a format by its header, or by the number of columns where there is none.
A reader only says which column means what; typed cells, faults, order and identity are the same
code for every format.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.model.errors import SpecError, TraceFault, UnknownName
from weft.trace.faults import OnFault, check_choice
from weft.trace.mapping import map_columns
from weft.trace.readers import (
    elasticflow,
    gavel,
    listing,
    muri,
    own,
    pollux,
    rubick,
    sacct,
    shockwave,
    tiresias,
)
from weft.trace.readers.options import Options
from weft.trace.reading import Reading
from weft.trace.schema import REQUIRED
from weft.trace.sheet import Sheet, load, made_of
from weft.trace.workload import JobColumns, Workload, assemble, is_unfinished

__all__ = ["FORMATS", "Format", "read", "read_rows", "recognise"]


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of job file: known by columns it must have, or by its numbered columns' meaning."""

    name: str
    about: str
    translate: Callable[[Reading, Options], JobColumns]
    columns: frozenset[str] = frozenset()
    numbered: tuple[str, ...] = ()

    def matches(self, sheet: Sheet) -> bool:
        if self.numbered or sheet.numbered:
            return sheet.numbered and len(sheet.header) == len(self.numbered)
        return self.columns <= set(sheet.header)

    @property
    def shape(self) -> str:
        if self.numbered:
            return f"{len(self.numbered)} tab-separated columns without a header"
        return ", ".join(sorted(self.columns))


OWN = "weft"
#: Formats of tables that a site writes itself, with whatever columns it has.
SITE_FORMATS = frozenset({OWN, "listing", "sacct"})
FORMATS: tuple[Format, ...] = (
    Format(OWN, "the project's own job table", own.translate, REQUIRED),
    Format("listing", "public traces in one shape", listing.translate, listing.COLUMNS),
    Format("sacct", "Slurm's accounts: sacct -a -X -P", sacct.translate, sacct.COLUMNS),
    Format("muri", "iterations and stage times in ms", muri.translate, muri.COLUMNS),
    Format("tiresias", "job lists of Tiresias", tiresias.translate, tiresias.COLUMNS),
    Format("elasticflow", "jobs with deadlines", elasticflow.translate, elasticflow.COLUMNS),
    Format("pollux", "arrivals of Pollux and Sia", pollux.translate, pollux.COLUMNS),
    Format("rubick", "jobs with execution plans", rubick.translate, rubick.COLUMNS),
    Format("gavel", "steps by job type", gavel.translate, numbered=gavel.HEADER),
    Format("shockwave", "steps and durations", shockwave.translate, numbered=shockwave.HEADER),
)


def read(
    path: str | Path,
    *,
    format: str | None = None,
    on_fault: OnFault = "raise",
    columns: Mapping[str, str] | None = None,
    durations: Mapping[str, float] | None = None,
    throughputs: Path | None = None,
) -> Workload:
    """The jobs of a file.

    `columns` maps names of our schema to the file's own (`weft.trace.mapping`); `durations` gives
    seconds by model where the file has none; `throughputs` is the table that turns Gavel's steps
    into seconds.
    """
    check_choice(on_fault)
    options = Options(durations=_checked(durations or {}), throughputs=throughputs)
    return _read_sheet(load(Path(path)), options, format, columns, on_fault=on_fault)


def read_rows(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    name: str = "rows",
    columns: Mapping[str, str] | None = None,
    durations: Mapping[str, float] | None = None,
) -> Workload:
    """The jobs of a table that stands in no file; faults count its rows from 1."""
    sheet = made_of(Path(name), header, rows)
    options = Options(durations=_checked(durations or {}), throughputs=None)
    return _read_sheet(sheet, options, None, columns, on_fault="raise")


def _read_sheet(
    sheet: Sheet,
    options: Options,
    format: str | None,
    columns: Mapping[str, str] | None,
    *,
    on_fault: OnFault,
) -> Workload:
    if columns:
        sheet = map_columns(sheet, columns)
        format = _own(format)
    chosen = _named(format, sheet) if format else recognise(sheet)
    reading = Reading(sheet.renamed(chosen.numbered) if chosen.numbered else sheet)
    translated = chosen.translate(reading, options)
    if chosen.name in SITE_FORMATS:
        _tell_unread(reading)
    return assemble(reading, translated, on_fault)


def _tell_unread(reading: Reading) -> None:
    """Name the columns that stand in the file and become nothing."""
    for name in reading.unread:
        count = sum(map(is_unfinished, reading.sheet.columns[name]))
        if count:
            rows = "1 row tells of a job" if count == 1 else f"{count:,} rows tell of jobs"
            problem = f"{rows} that had not ended; the column is not read"
            remedy = f"write --column status={name} to have these rows named"
            reading.log.inform(name, problem=problem, remedy=remedy)
    if reading.unread:
        several = "columns are" if len(reading.unread) > 1 else "column is"
        problem = f"{len(reading.unread)} {several} not read: {', '.join(reading.unread)}"
        remedy = "none needed unless one of them matters to a simulation"
        reading.log.inform("", problem=problem, remedy=remedy)


def recognise(sheet: Sheet) -> Format:
    """The format whose columns the sheet has; the one that demands most of them wins."""
    fitting = [known for known in FORMATS if known.matches(sheet)]
    if not fitting:
        raise TraceFault(_unknown(sheet), hint=_known())
    return max(fitting, key=lambda known: len(known.columns))


def _named(name: str, sheet: Sheet) -> Format:
    chosen = next((known for known in FORMATS if known.name == name), None)
    if chosen is None:
        raise UnknownName(f"no trace format '{name}'", hint=_known())
    if not chosen.matches(sheet):
        raise TraceFault(
            f"{sheet.path.name} is not in format '{name}', which has {chosen.shape}",
            hint="leave the format out to have it recognised, or give --column OURS=YOURS",
        )
    return chosen


def _own(format: str | None) -> str:
    if format not in (None, OWN):
        raise SpecError(
            f"columns are mapped to the project's own table, not to format '{format}'",
            hint="give columns or a format, not both",
        )
    return OWN


def _checked(durations: Mapping[str, float]) -> Mapping[str, float]:
    for model, seconds in durations.items():
        if not 0 <= seconds < float("inf"):
            raise SpecError(
                f"a duration of {seconds} s for '{model}'", hint="give seconds of 0 or more"
            )
    return durations


def _unknown(sheet: Sheet) -> str:
    if sheet.numbered:
        return f"{sheet.path.name}: a trace of {len(sheet.header)} columns is in no known format"
    named = [known for known in FORMATS if known.columns]
    nearest = max(
        named, key=lambda known: len(known.columns & set(sheet.header)) / len(known.columns)
    )
    header = ", ".join(sheet.header)
    return f"{sheet.path.name}: the header ({header}) is of no known format{_lack(nearest, sheet)}"


def _lack(wanted: Format, sheet: Sheet) -> str:
    absent = sorted(wanted.columns - set(sheet.header))
    if not absent or len(absent) == len(wanted.columns):
        return ""
    return f"; for '{wanted.name}' it lacks {', '.join(absent)}"


def _known() -> str:
    listed = "; ".join(f"{known.name} ({known.about})" for known in FORMATS)
    return f"known formats: {listed}; for your own table give --column gpus=YOURS for each of ours"
