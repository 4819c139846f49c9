"""What reaches the screen: data on standard output, talk on standard error.

Rich honours NO_COLOR and leaves colours out where nobody looks. Output that goes into a file or a
pipe gets lines long enough that no table is cut.
"""

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPE_WIDTH = 240


def stdout() -> "Console":
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)


def print_json(what: object) -> None:
    """The JSON twin of what a table shows."""
    import orjson

    text = orjson.dumps(what, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY)
    click.echo(text.decode())


def new_table(title: str, *, caption: str = "") -> "Table":
    """A plain table: readable without colour, easy to copy."""
    from rich import box
    from rich.table import Table

    return Table(
        title=plain(title) or None,
        caption=plain(caption) or None,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        pad_edge=False,
    )


def plain(text: str) -> str:
    """A user's own text as a table shows it: brackets in it are no markup."""
    from rich.markup import escape

    return escape(text)


def say(text: str) -> None:
    """Talk, not data."""
    click.echo(text, err=True)
