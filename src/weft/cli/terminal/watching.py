"""Staying with something that changes: drawing it anew, and leaving it without harm."""

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, TypeVar

import click

from weft.cli.exit_status import Exit
from weft.cli.terminal.grid import Grid
from weft.cli.terminal.screen import print_json, say, stdout

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

LEAST_SECONDS = 0.5
AGEING_SECONDS = 5.0
T = TypeVar("T")


@contextmanager
def detaching(text: str | Callable[[], str]) -> Iterator[None]:
    """Ctrl-C leaves, and says what goes on without us: in words that are known by then."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"\ndetached: {text if isinstance(text, str) else text()}")
        raise click.exceptions.Exit(Exit.INTERRUPTED) from None


async def staying(
    pages: AsyncGenerator[T, None],
    as_dict: Callable[[T], object],
    draw: "Callable[[T], Grid | Group]",
    output: str,
) -> None:
    """Each page as it comes, as one line of JSON or as a picture, until somebody leaves."""
    async with aclosing(pages):
        if output == "json":
            await _again(pages, lambda page: print_json(as_dict(page), lines=True), None)
        else:
            await _redraw(pages, draw)


async def _redraw(pages: AsyncIterator[T], draw: "Callable[[T], Grid | Group]") -> None:
    """The picture: at each change, and now and then because ages grow.

    Where nobody sees it being redrawn, only changes are printed, one picture below the other.
    """
    from rich.live import Live

    if not sys.stdout.isatty():
        await _again(pages, lambda page: _print(draw(page)), None)
        return
    with Live(console=stdout(), auto_refresh=False, vertical_overflow="crop") as live:

        def show(page: T) -> None:
            live.update(_fitting(draw(page)), refresh=True)

        await _again(pages, show, AGEING_SECONDS)


def _print(picture: "Grid | Group") -> None:
    if isinstance(picture, Grid):
        picture.print()
    else:
        stdout().print(picture)


def _fitting(picture: "Grid | Group") -> "RenderableType":
    return picture.fitting() if isinstance(picture, Grid) else picture


async def _again(
    pages: AsyncIterator[T], show: Callable[[T], None], ageing_seconds: float | None
) -> None:
    """The next page is asked for only after a pause, so that many changes make one."""
    page = await anext(pages)
    coming: asyncio.Future[T] | None = None
    try:
        while True:
            show(page)
            await asyncio.sleep(LEAST_SECONDS)
            coming = coming or asyncio.ensure_future(_step(pages))
            done, _ = await asyncio.wait({coming}, timeout=ageing_seconds)
            if done:
                page, coming = coming.result(), None
    except StopAsyncIteration:
        return
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)


async def _step(pages: AsyncIterator[T]) -> T:
    return await anext(pages)
