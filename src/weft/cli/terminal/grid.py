"""A table for lists that may be long.

Rich measures, wraps and paints each cell, which takes a millisecond per row: ten seconds for ten
thousand jobs. Here a row is a line of text; a terminal that is too narrow wraps it.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weft.cli.terminal.screen import STATE_STYLES, harmless, sees_colours, stdout

if TYPE_CHECKING:
    from rich.text import Text

GAP = "   "
NOTHING = "–"
CODES = {"red": 31, "green": 32, "yellow": 33, "dim": 2}
Align = Callable[[str, int], str]


@dataclass(slots=True)
class Grid:
    """Titles and rows; columns named in `right` are numbers, `state` is the one with colours."""

    titles: Sequence[str]
    right: frozenset[str] = frozenset()
    state: str = "state"
    rows: list[list[str]] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        """A row; what comes from a cluster cannot steer the terminal or begin another line."""
        self.rows.append([shown(cell) for cell in cells])

    def text(self, *, colours: bool = False, most: int | None = None) -> str:
        """Titles, a rule and the rows, or the first `most` lines of them."""
        return "\n".join(self._lines(colours, self.rows if most is None else self.rows[: most - 2]))

    def print(self) -> None:
        """To standard output, in colours where somebody sees them."""
        sys.stdout.write(self.text(colours=sees_colours()) + "\n")

    def fitting(self) -> "Text":
        """As much as fits on the screen, to be drawn again and again."""
        from rich.text import Text

        console = stdout()
        text = self.text(colours=not console.no_color, most=max(console.height - 1, 3))
        return Text.from_ansi(text, no_wrap=True)

    def _lines(self, colours: bool, rows: Sequence[Sequence[str]]) -> Iterator[str]:
        columns = [(title, *cells) for title, *cells in zip(self.titles, *rows, strict=True)]
        widths = [max(map(len, column)) for column in columns]
        align = [str.rjust if title in self.right else str.ljust for title in self.titles]
        painted = self.titles.index(self.state) if colours and self.state in self.titles else -1
        yield self._line(self.titles, widths, align)
        yield "─" * (sum(widths) + len(GAP) * (len(widths) - 1))
        for row in rows:
            yield self._line(row, widths, align, painted)

    def _line(
        self, row: Sequence[str], widths: list[int], align: Sequence[Align], painted: int = -1
    ) -> str:
        cells = [pad(cell, width) for cell, width, pad in zip(row, widths, align, strict=True)]
        code = CODES.get(STATE_STYLES.get(row[painted].split(" ")[0], "")) if painted >= 0 else None
        if code is not None:
            cells[painted] = f"\x1b[{code}m{cells[painted]}\x1b[0m"
        return GAP.join(cells).rstrip()


def shown(value: object) -> str:
    """A value as a cell; a dash where there is none."""
    text = harmless(str(value)) if value is not None else ""
    return " ".join(text.splitlines()) if "\n" in text else text or NOTHING
