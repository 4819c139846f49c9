"""Faults of an input file: named with row, value and remedy, and never repaired on the way.

A workload that is mended silently is replayed to a result that nobody can explain. So a reader
only notes what it finds: an *error* is a row that cannot be a job, a *warning* is a row that is
used exactly as written although it contradicts itself, an *info* speaks of the file as a whole.
Whether errors stop the reading or leave their rows out is the caller's choice, said in one word.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from weft.model.errors import TraceFault, UnknownName

OnFault = Literal["raise", "skip"]

LISTED = 5
EXAMPLES = 3
FIGURE = re.compile(r"'[^']*'|\d[\d,.]*(?:e[+-]?\d+)?")


class Severity(StrEnum):
    """What a fault does to its row."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class InputFault:
    """One thing that is wrong; `row` counts as an editor does, None means the whole file."""

    file: str
    row: int | None
    column: str
    value: str
    problem: str
    remedy: str
    severity: Severity = Severity.ERROR

    @property
    def text(self) -> str:
        where = self.file if self.row is None else f"{self.file} row {self.row}"
        cell = f", {self.column}" if self.column else ""
        value = f" '{self.value}'" if self.value else ""
        return f"{where}{cell}{value}: {self.problem}"


@dataclass(frozen=True, slots=True)
class FaultGroup:
    """Faults that differ in row, value and figures alone, told in one line."""

    faults: tuple[InputFault, ...]

    @property
    def first(self) -> InputFault:
        return self.faults[0]

    @property
    def text(self) -> str:
        """The fault; of several, how many there are, with the first rows and values."""
        first = self.first
        if len(self.faults) == 1:
            return first.text
        rows = _examples([f"{fault.row}" for fault in self.faults])
        values = _examples([f"'{fault.value}'" for fault in self.faults if fault.value])
        where = f"{first.file}, {len(self.faults):,} rows ({rows})"
        cell = f", {first.column}" if first.column else ""
        same = len({fault.problem for fault in self.faults}) == 1
        problem = first.problem if same else f"row {first.row} {first.problem}"
        return f"{where}{cell}{' ' if values else ''}{values}: {problem}"


def grouped(faults: Sequence[InputFault]) -> tuple[FaultGroup, ...]:
    """Faults with one cause together, in the order of the first of each."""
    groups: dict[tuple[str, ...], list[InputFault]] = {}
    for fault in faults:
        groups.setdefault(_cause(fault), []).append(fault)
    return tuple(FaultGroup(tuple(group)) for group in groups.values())


class FaultLog:
    """Faults of one file while it is read, and the positions of rows that cannot be used."""

    def __init__(self, file: str, rows: Sequence[int]) -> None:
        self.bad: set[int] = set()
        self._file = file
        self._rows = rows
        self._faults: list[InputFault] = []

    def error(self, index: int, column: str, value: str, *, problem: str, remedy: str) -> None:
        """The row at `index` cannot be a job."""
        self.bad.add(index)
        row = self._rows[index]
        self._faults.append(InputFault(self._file, row, column, value, problem, remedy))

    def warn(self, index: int, column: str, value: str, *, problem: str, remedy: str) -> None:
        """The row at `index` is used as written, and somebody should look at it."""
        fault = InputFault(self._file, self._rows[index], column, value, problem, remedy)
        self._faults.append(replace(fault, severity=Severity.WARNING))

    def inform(self, column: str, *, problem: str, remedy: str) -> None:
        """Something that is true of the file as a whole."""
        fault = InputFault(self._file, None, column, "", problem, remedy, Severity.INFO)
        self._faults.append(fault)

    @property
    def faults(self) -> tuple[InputFault, ...]:
        """All faults by row, those of the whole file first."""
        return tuple(sorted(self._faults, key=lambda fault: fault.row or 0))

    def settle(self, on_fault: OnFault) -> tuple[InputFault, ...]:
        """The faults, or a `TraceFault` where there are errors and the caller wants none."""
        check_choice(on_fault)
        errors = [fault for fault in self.faults if fault.severity is Severity.ERROR]
        if errors and on_fault == "raise":
            raise TraceFault(_summary(self._file, errors), hint=_hint(errors))
        return self.faults


def check_choice(on_fault: str) -> None:
    if on_fault not in ("raise", "skip"):
        raise UnknownName(f"no way '{on_fault}' to meet a fault", hint="write 'raise' or 'skip'")


def _summary(file: str, errors: Sequence[InputFault]) -> str:
    rows = len({fault.row for fault in errors})
    groups = grouped(errors)
    lines = [f"{file}: {rows:,} {'row' if rows == 1 else 'rows'} cannot be used"]
    lines += [f"  {group.text}" for group in groups[:LISTED]]
    if len(groups) > LISTED:
        lines.append(f"  and {sum(len(group.faults) for group in groups[LISTED:]):,} more")
    return "\n".join(lines)


def _hint(errors: Sequence[InputFault]) -> str:
    remedies = dict.fromkeys(group.first.remedy for group in grouped(errors)[:LISTED])
    return "; ".join([*remedies, "or leave such rows out: --on-fault skip"])


def _cause(fault: InputFault) -> tuple[str, ...]:
    """What faults of one group share; figures and the row's own value may differ."""
    words = ["…" if word == fault.value else word for word in fault.problem.split(" ")]
    shape = FIGURE.sub("…", " ".join(words))
    row = "file" if fault.row is None else "row"
    return (fault.severity, fault.file, row, fault.column, shape, fault.remedy)


def _examples(texts: Sequence[str]) -> str:
    """The first different ones."""
    distinct = list(dict.fromkeys(texts))
    return ", ".join([*distinct[:EXAMPLES], *(["…"] if len(distinct) > EXAMPLES else [])])
