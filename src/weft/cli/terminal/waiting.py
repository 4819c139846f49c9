"""A progress bar with the remaining time, for whatever lasts longer than two seconds.

It is drawn on standard error, only where that is a terminal, and leaves nothing behind.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_SECONDS = 2.0


class Bar:
    """Appears by itself once the wait has become long."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._begun = monotonic()
        self._drawn: tuple[Progress, TaskID] | None = None

    def __call__(self, done: int, total: int | None = None) -> None:
        if self._drawn is None and monotonic() - self._begun >= PATIENCE_SECONDS:
            self._appear()
        if self._drawn is not None:
            progress, task = self._drawn
            progress.update(task, completed=done, total=total)

    def close(self) -> None:
        if self._drawn is not None:
            self._drawn[0].stop()

    def _appear(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeRemainingColumn as Remaining

        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            Remaining(),
            console=Console(stderr=True),
            transient=True,
        )
        progress.start()
        self._drawn = progress, progress.add_task(self._what, total=None)


@contextmanager
def waiting(what: str) -> Iterator[Callable[..., None]]:
    """A callback (done, total) that draws a bar if anybody can see it."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    bar = Bar(what)
    try:
        yield bar
    finally:
        bar.close()
