"""Staying with something that changes: drawing it anew, and leaving it without harm."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from weft.cli.exit_status import Exit
from weft.cli.screen import print_json, say, stdout

if TYPE_CHECKING:
    from rich.console import RenderableType

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


async def redraw(draw: "Callable[[], RenderableType]", changed: asyncio.Event) -> None:
    """The picture for ever: at each change, and now and then because ages grow.

    Where nobody sees it being redrawn, only changes are printed, one picture below the other.
    """
    from rich.live import Live

    if not sys.stdout.isatty():
        await _again(lambda: stdout().print(draw()), changed, None)
        return
    with Live(console=stdout(), auto_refresh=False, vertical_overflow="crop") as live:
        await _again(lambda: live.update(draw(), refresh=True), changed, AGEING_SECONDS)


async def reprint_json(make: Callable[[], object], changed: asyncio.Event) -> None:
    """One line of JSON now and at each change."""
    await _again(lambda: print_json(make(), lines=True), changed, None)


async def _again(show: Callable[[], None], changed: asyncio.Event, ageing: float | None) -> None:
    while True:
        changed.clear()
        show()
        await asyncio.sleep(LEAST_SECONDS)
        try:
            await asyncio.wait_for(changed.wait(), ageing)
        except TimeoutError:
            continue
