"""A user's own columns under the names of the job table.

`columns={"gpus": "AllocGPUS", "duration_seconds": "Runtime (min)"}` says which column of the file
holds which of ours. One column may hold several of ours. The unit of a time or of memory follows
from the name of the user's column, or is stated behind ours: `duration_seconds:min`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.model.errors import SpecError, UnknownName
from weft.trace.schema import COLUMNS
from weft.trace.sheet import Sheet
from weft.trace.units import ONE, ColumnUnit, dimension_of, named_unit, unit_in_name, unit_names


def map_columns(sheet: Sheet, columns: Mapping[str, str]) -> Sheet:
    """The sheet with the caller's columns under our names; what is not mapped keeps its own.

    A column of ours that the file has as well gives way to the mapped one. An empty name leaves
    the column of ours out.
    """
    sources: dict[str, str] = {}
    units: dict[str, ColumnUnit] = {}
    for key, theirs in columns.items():
        ours, _, unit = key.partition(":")
        _check_names(sheet, ours, theirs, sources)
        sources[ours] = theirs
        if unit:
            units[ours] = ColumnUnit(named_unit(unit, ours))
        elif found := _unit_in_name(sheet, ours, theirs):
            units[ours] = found
    mapped = {ours: sheet.columns[theirs] for ours, theirs in sources.items() if theirs}
    used = {*sources, *sources.values()}
    kept = {name: cells for name, cells in sheet.columns.items() if name not in used}
    table = kept | mapped
    return replace(sheet, header=tuple(table), columns=table, units=units)


def _check_names(sheet: Sheet, ours: str, theirs: str, sources: Mapping[str, str]) -> None:
    known = [column.name for column in COLUMNS]
    if ours not in known:
        raise UnknownName(f"a job table has no '{ours}'", hint=f"columns: {', '.join(known)}")
    if theirs and theirs not in sheet.header:
        hint = f"its columns: {', '.join(sheet.header)}"
        raise UnknownName(f"{sheet.path.name} has no column '{theirs}'", hint=hint)
    if ours in sources:
        raise SpecError(f"column '{ours}' is mapped twice", hint="map it to one column")


def _unit_in_name(sheet: Sheet, ours: str, theirs: str) -> ColumnUnit | None:
    """The unit in the column's name; one that is not clear is refused where it would matter."""
    dimension = dimension_of(ours)
    if dimension is None or not _has_plain_numbers(sheet.columns.get(theirs, ())):
        return None
    try:
        unit = unit_in_name(theirs, ours, header=sheet.header)
    except ValueError as problem:
        units = ", ".join(unit_names(dimension))
        raise SpecError(
            f"the column name '{theirs}' {problem}; its numbers are to become {ours}",
            hint=f"state the unit ({units}): --column '{ours}:UNIT={theirs}'",
        ) from problem
    return ColumnUnit(unit, theirs) if unit is not None and unit.factor != ONE else None


def _has_plain_numbers(cells: Sequence[str]) -> bool:
    """Whether any cell is a number without a unit of its own."""
    return any(map(_is_number, set(cells)))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
