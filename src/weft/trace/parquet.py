"""Parquet, read into and written from sheets of text; pyarrow is loaded only when this is used.

Cells pass through text on purpose: one set of checks then serves every file, and a Parquet file
with a fault is reported in the same words as a CSV.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from weft.model.errors import SpecError, TraceFault
from weft.trace.cells import cell_of
from weft.trace.sheet import Sheet, check_header

Column = Sequence[str | float | int | bool | None]


def load(path: Path) -> Sheet:
    """The file as text; rows count from 1, there being no header line."""
    arrow = _arrow()
    try:
        table = _parquet().read_table(path)
    except arrow.ArrowInvalid as error:
        raise TraceFault(f"{path}: is not Parquet: {error}", hint="check the file") from error
    header = tuple(table.column_names)
    check_header(path, header)
    columns = {
        name: [cell_of(value) for value in column.to_pylist()]
        for name, column in zip(header, table.columns, strict=True)
    }
    return Sheet(path, header, columns, range(1, table.num_rows + 1))


def save(path: Path, columns: Mapping[str, Column]) -> None:
    """Typed columns as a Parquet file; None is a missing cell."""
    arrow = _arrow()
    _parquet().write_table(
        arrow.table({name: list(cells) for name, cells in columns.items()}), path
    )


def _arrow() -> ModuleType:
    try:
        import pyarrow
    except ImportError as error:
        raise SpecError(
            "Parquet needs the package pyarrow",
            hint="in Weft's checkout: pip install '.[parquet]'; or use .csv.gz",
        ) from error
    module: ModuleType = pyarrow
    return module


def _parquet() -> ModuleType:
    import pyarrow.parquet

    module: ModuleType = pyarrow.parquet
    return module
