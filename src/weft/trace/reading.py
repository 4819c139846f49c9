"""A sheet being read: typed columns come out, and every cell that does not fit is noted.

A column that the file lacks reads as empty cells; whether an empty cell is a fault is said by
`missing`, the remedy for it. Equal cells are parsed once, because a trace of 10^5 jobs has a few
dozen different widths, tenants and models.
"""

import math
from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from functools import partial
from typing import TypeVar

from weft.trace.bounds import MOST_AMOUNT, MOST_COUNT
from weft.trace.faults import FaultLog
from weft.trace.sheet import Sheet
from weft.trace.times import (
    is_compact_date,
    is_date,
    is_short_clock,
    is_zoned,
    read_moment,
    read_span,
)
from weft.trace.units import ONE, ColumnUnit, scaled

T = TypeVar("T")


class Reading:
    """One sheet with the log of its faults."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet
        self._used: set[str] = set()
        self.log = FaultLog(sheet.path.name, sheet.rows)
        for index, cells in sheet.ragged.items():
            self.log.error(
                index,
                "",
                "",
                problem=f"has {cells} cells where the file has {len(sheet.header)} columns",
                remedy="give every row one cell per column",
            )
        for column, stated in sheet.units.items():
            if stated.source:
                self._tell_unit(column, stated)

    def __len__(self) -> int:
        return len(self.sheet.rows)

    def has(self, column: str) -> bool:
        return column in self.sheet.columns

    @property
    def unread(self) -> tuple[str, ...]:
        """Columns of the file that nothing was read from so far."""
        return tuple(name for name in self.sheet.header if name not in self._used)

    def texts(self, column: str, *, missing: str | None = None) -> Sequence[str]:
        self._used.add(column)
        cells = self.sheet.columns.get(column)
        if cells is None:
            cells = [""] * len(self)
        if missing is not None:
            for index, cell in enumerate(cells):
                if not cell:
                    self._missing(index, column, missing)
        return cells

    def numbers(
        self,
        column: str,
        *,
        least: float = 0.0,
        per: float = 1.0,
        missing: str | None = None,
        remedy: str = "write a finite number",
    ) -> list[float | None]:
        """Numbers of at least `least`, divided by `per` (1000 where the file counts ms)."""

        unit = self._unit(column)

        def number(cell: str) -> float:
            return scaled(_number(cell, least, MOST_AMOUNT) / per, unit)

        return self.parsed(column, number, missing=missing, remedy=remedy)

    def wholes(
        self,
        column: str,
        *,
        least: float = 0.0,
        missing: str | None = None,
        remedy: str = "write a whole number",
    ) -> list[int | None]:
        def whole(cell: str) -> int:
            value = _number(cell, least, MOST_COUNT)
            if not value.is_integer():
                raise ValueError("is not a whole number")
            return int(value)

        return self.parsed(column, whole, missing=missing, remedy=remedy)

    def spans(
        self, column: str, *, missing: str | None = None, remedy: str = "write seconds, or 1h30m"
    ) -> list[float | None]:
        """Seconds, as a number or with units."""
        read = partial(read_span, unit=self._unit(column))
        short = sum(map(is_short_clock, self.texts(column)))
        if short:
            problem = (
                f"{short:,} of two parts ({_example(self.texts(column), is_short_clock)}) are "
            )
            problem += "read as minutes and seconds"
            remedy = "if they are hours and minutes, write 02:30:00 or 2h30m"
            self.log.inform(column, problem=problem, remedy=remedy)
        return self.parsed(column, read, missing=missing, remedy=remedy)

    def moments(self, column: str, *, missing: str | None = None) -> list[float | None]:
        """Seconds since any beginning; dates are counted from the first of them, and that is said.

        Numbers among dates would lie decades before them: they are faults.
        """
        return self.since_first(column, self.instants(column, missing=missing))

    def instants(
        self, column: str, *, missing: str | None = None, unknown: Collection[str] = ()
    ) -> list[float | None]:
        """Dates as seconds since 1970, numbers as they stand; None for a cell of `unknown`."""
        remedy = "write seconds, or dates such as 2026-11-17T10:30:00Z in every row"
        cells = [cell for cell in self.texts(column) if cell.strip()]
        dated = any(map(is_date, cells))
        if cells and all(map(is_compact_date, cells)):
            problem = f"numbers such as {cells[0]} may be dates, and count as seconds"
            self.log.inform(column, problem=problem, remedy="write dates as 2026-11-17")
        read = _dated if dated else partial(read_moment, unit=self._unit(column))

        def instant(cell: str) -> float | None:
            return None if cell.strip() in unknown else read(cell)

        return self.parsed(column, instant, missing=missing, remedy=remedy)

    def since_first(self, column: str, instants: Sequence[float | None]) -> list[float | None]:
        """Dates of a column counted from the first of them, numbers as they stand."""
        known = [instant for instant in instants if instant is not None]
        if not known or not any(map(is_date, self.texts(column))):
            return list(instants)
        first = min(known)
        problem = "holds dates: times are counted from the first of them, in UTC unless they say"
        self.log.inform(column, problem=problem, remedy="none needed")
        self._tell_mixed_zones(column)
        return [None if instant is None else instant - first for instant in instants]

    def parsed(
        self,
        column: str,
        parse: Callable[[str], T],
        *,
        missing: str | None = None,
        remedy: str,
    ) -> list[T | None]:
        """Each cell through `parse`, whose `ValueError` becomes a fault; None where it failed."""
        cells = self.texts(column)
        if missing is None and not any(cells):
            return [None] * len(self)
        known: dict[str, T] = {}
        values: list[T | None] = []
        for index, cell in enumerate(cells):
            value = known.get(cell)
            if value is None and cell.strip():
                value = self._parse(index, column, parse, remedy)
                if value is not None:
                    known[cell] = value
            elif value is None and missing is not None:
                self._missing(index, column, missing)
            values.append(value)
        return values

    def _parse(self, index: int, column: str, parse: Callable[[str], T], remedy: str) -> T | None:
        cell = self.sheet.columns[column][index]
        try:
            return parse(cell)
        except ValueError as error:
            self.log.error(index, column, cell, problem=str(error), remedy=remedy)
        return None

    def _tell_mixed_zones(self, column: str) -> None:
        dates = [cell for cell in self.texts(column) if is_date(cell)]
        bare = sum(not is_zoned(cell) for cell in dates)
        if 0 < bare < len(dates):
            problem = f"{bare:,} of {len(dates):,} dates have no time zone, and count as UTC"
            self.log.inform(column, problem=problem, remedy="write every date with its zone")

    def _unit(self, column: str) -> Fraction:
        stated = self.sheet.units.get(column)
        return stated.unit.factor if stated else ONE

    def _tell_unit(self, column: str, stated: ColumnUnit) -> None:
        unit = stated.unit
        size = f"1 {unit.name} = {float(unit.factor):.6g} {unit.dimension.base}"
        problem = f"plain numbers count {unit.name} ({size}), as the column's name states"
        remedy = f"if they do not, write --column '{column}:UNIT={stated.source}'"
        self.log.inform(stated.source, problem=problem, remedy=remedy)

    def _missing(self, index: int, column: str, remedy: str) -> None:
        if index not in self.sheet.ragged:
            self.log.error(index, column, "", problem="is missing", remedy=remedy)


def _example(cells: Sequence[str], fits: Callable[[str], bool]) -> str:
    return next((cell.strip() for cell in cells if fits(cell)), "")


def _dated(cell: str) -> float:
    if not is_date(cell):
        raise ValueError("is no date, and others are")
    return read_moment(cell)


def _number(cell: str, least: float, most: float) -> float:
    try:
        value = float(cell)
    except ValueError:
        raise ValueError("is not a number") from None
    if not math.isfinite(value):
        raise ValueError("is not a finite number")
    if value < least:
        raise ValueError("is negative" if least == 0 else f"is less than {least:g}")
    if value > most:
        raise ValueError(f"is more than {most:,.0f}")
    return value
