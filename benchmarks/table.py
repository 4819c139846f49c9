"""Rows on a screen: a table on a terminal, aligned plain text elsewhere."""

import sys
from collections.abc import Sequence

from benchmarks.row import Figure, Row

HEADER = ("", "name", "value", "unit", "bar", "beside it", "its value")
RIGHT = (2, 4, 6)


def show(rows: Sequence[Row]) -> None:
    """Print the rows as the output allows."""
    if sys.stdout.isatty():
        _show_rich(rows)
    else:
        print(plain(rows))


def plain(rows: Sequence[Row]) -> str:
    """Columns padded to their widest cell."""
    lines = [HEADER, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
    return "\n".join(_padded(line, widths) for line in lines)


def _padded(line: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        cell.rjust(width) if column in RIGHT else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def _show_rich(rows: Sequence[Row]) -> None:
    from rich.console import Console  # noqa: PLC0415 - only a terminal pays for it
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, pad_edge=False)
    for column, title in enumerate(HEADER):
        table.add_column(title, justify="right" if column in RIGHT else "left")
    for row in rows:
        style = "red" if row.fails else "dim" if row.bar is None else None
        table.add_row(*_cells(row), style=style)
    Console(markup=False, highlight=False).print(table)


def _cells(row: Row) -> tuple[str, ...]:
    return (
        _mark(row),
        row.name,
        _figure(row.value),
        row.unit,
        f"aim {row.bar}" if row.aim else row.bar or "",
        row.peer or "",
        _figure(row.peer_value),
    )


def _mark(row: Row) -> str:
    if row.bar is None:
        return ""
    if row.aim:
        return "met" if row.holds else "missed"
    return "ok" if row.holds else "FAILS"


def _figure(value: Figure) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, int):
        return f"{value:,d}"
    size = abs(value)
    if size >= 1000:  # noqa: PLR2004 - four digits say enough of a measurement
        return f"{value:,.0f}"
    if size == 0 or size >= 1e-3:  # noqa: PLR2004
        return f"{value:.4g}"
    return f"{value:.1e}"
