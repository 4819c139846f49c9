"""Staying with something that changes: drawing it anew, and leaving it without harm."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from weft.cli.exit_status import Exit
from weft.cli.grid import Grid
from weft.cli.screen import print_json, say, stdout

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

LEAST_SECONDS = 0.5
AGEING_SECONDS = 5.0


@contextmanager
def detaching(text: str) -> Iterator[None]:
    """Ctrl-C leaves, and says what goes on without us."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"\ndetached: {text}")
        raise click.exceptions.Exit(Exit.INTERRUPTED) from None


async def redraw(draw: "Callable[[], Grid | Group]", changed: asyncio.Event) -> None:
    """The picture for ever: at each change, and now and then because ages grow.

    Where nobody sees it being redrawn, only changes are printed, one picture below the other.
    """
    from rich.live import Live

    if not sys.stdout.isatty():
        await _again(lambda: _print(draw()), changed, None)
        return
    with Live(console=stdout(), auto_refresh=False, vertical_overflow="crop") as live:
        await _again(lambda: live.update(_fitting(draw()), refresh=True), changed, AGEING_SECONDS)


async def reprint_json(make: Callable[[], object], changed: asyncio.Event) -> None:
    """One line of JSON now and at each change."""
    await _again(lambda: print_json(make(), lines=True), changed, None)


def _print(picture: "Grid | Group") -> None:
    if isinstance(picture, Grid):
        picture.print()
    else:
        stdout().print(picture)


def _fitting(picture: "Grid | Group") -> "RenderableType":
    return picture.fitting() if isinstance(picture, Grid) else picture


async def _again(show: Callable[[], None], changed: asyncio.Event, ageing: float | None) -> None:
    while True:
        changed.clear()
        show()
        await asyncio.sleep(LEAST_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(ageing):
                await changed.wait()
