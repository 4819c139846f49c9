"""A table for notebooks: named columns and rows, as plain values, as a DataFrame, or to look at.

pandas is heavy and many do without it, so only `frame` asks for it, and only when it is called.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.model.errors import SpecError

if TYPE_CHECKING:
    import pandas as pd

SHOWN_ROWS = 20


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under column names. Times are in seconds, and their columns say so."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.dicts())

    def dicts(self) -> list[dict[str, Any]]:
        """A dict per row; needs no other package."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def column(self, name: str) -> list[Any]:
        """One column's values."""
        if name not in self.columns:
            raise SpecError(f"no column '{name}'", hint=f"columns: {', '.join(self.columns)}")
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def frame(self) -> "pd.DataFrame":
        """The same as a pandas DataFrame."""
        try:
            import pandas as pd
        except ImportError:
            raise SpecError(
                "a DataFrame needs pandas, which is not installed",
                hint="in Weft's checkout: pip install '.[notebook]'; dicts() needs nothing",
            ) from None
        return pd.DataFrame.from_records(list(self.rows), columns=list(self.columns))

    def _repr_html_(self) -> str:
        from weft.lab.html import table_html

        return table_html(self.title, self.columns, self.rows[:SHOWN_ROWS], of=len(self))


def table_of(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A table of any sequences."""
    return Table(title, tuple(columns), tuple(tuple(row) for row in rows))
