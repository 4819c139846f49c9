"""What reaches the screen: data on standard output, talk on standard error.

Rich honours NO_COLOR and leaves colours out where nobody looks. Output that goes into a file or a
pipe gets lines long enough that no table is cut.
"""

import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPE_WIDTH = 240

# What a terminal obeys instead of showing: sequences that begin with ESC (those with a text of
# their own up to its end), other control characters, and marks that turn the direction of reading.
ESCAPES = re.compile(
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]).*?(?:\x07|\x1b\\|\x9c|$)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]",
    re.DOTALL,
)
STATE_STYLES = {
    **dict.fromkeys(("Running", "Succeeded", "Ready", "ok"), "green"),
    **dict.fromkeys(("Queued", "Admitted", "Cordoned", "Tainted", "warn"), "yellow"),
    **dict.fromkeys(("Failed", "NotReady", "fail", "no:"), "red"),
    "Cancelled": "dim",
}


def stdout() -> "Console":
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)


def stderr() -> "Console":
    from rich.console import Console

    return Console(stderr=True, width=None if sys.stderr.isatty() else PIPE_WIDTH, highlight=False)


def sees_colours() -> bool:
    """Whether standard output shows them and somebody wants them; the rules are Rich's."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def print_json(what: object, *, lines: bool = False) -> None:
    """The JSON twin of what a table shows; in one line where more will follow."""
    import orjson

    layout = 0 if lines else orjson.OPT_INDENT_2
    click.echo(orjson.dumps(what, option=layout | orjson.OPT_SERIALIZE_NUMPY).decode())


def new_table(title: str, *, caption: str = "") -> "Table":
    """A plain table: readable without colour, easy to copy."""
    from rich import box
    from rich.table import Table

    return Table(
        title=plain(title) or None,
        caption=plain(caption) or None,
        box=box.SIMPLE_HEAD,
        show_edge=bool(title),
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        pad_edge=False,
    )


def fact_table(facts: Mapping[str, str]) -> "Table":
    """Headings and what stands under each; long text is folded under itself."""
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for heading, text in facts.items():
        table.add_row(heading, cell(text))
    return table


def plain(text: str) -> str:
    """A user's own text as a table shows it: brackets in it are no markup."""
    from rich.markup import escape

    return escape(text)


def harmless(text: str) -> str:
    """Somebody else's text without what would change how the terminal shows it."""
    return ESCAPES.sub("", text)


def cell(text: object) -> str:
    """A value from a cluster as a table shows it; a dash where there is none."""
    return "–" if text is None or text == "" else plain(harmless(str(text)))


def coloured(state: str) -> str:
    """A state in its colour, which says nothing that the word does not."""
    style = STATE_STYLES.get(state)
    return f"[{style}]{cell(state)}[/{style}]" if style else cell(state)


def say(text: str) -> None:
    """Talk, not data."""
    click.echo(text, err=True)


def tell(message: str, hint: str = "", *, status: int) -> int:
    """The error and its hint on standard error, and the exit status back."""
    click.echo(f"error: {harmless(message)}", err=True)
    if hint:
        click.echo(f"hint: {harmless(hint)}", err=True)
    return status
