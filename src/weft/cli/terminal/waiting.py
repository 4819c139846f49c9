"""A progress bar with the remaining time, for whatever lasts longer than a moment.

It appears and moves in the first second, though nothing may be counted by then. It is drawn on
standard error, only where that is a terminal, and leaves nothing behind.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_SECONDS = 0.4


class Bar:
    """Appears by itself once the wait has become long."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._drawn: tuple[Progress, TaskID] | None = None
        self._counted: tuple[int, int | None] = 0, None
        self._closed = False
        self._turn = Lock()
        self._alarm = Timer(PATIENCE_SECONDS, self._appear)
        self._alarm.daemon = True
        self._alarm.start()

    def __call__(self, done: int, total: int | None = None) -> None:
        with self._turn:
            self._counted = done, total
            if self._drawn is not None:
                progress, task = self._drawn
                progress.update(task, completed=done, total=total)

    @property
    def is_drawn(self) -> bool:
        return self._drawn is not None

    def close(self) -> None:
        self._alarm.cancel()
        with self._turn:
            if self._drawn is not None:
                self._drawn[0].stop()
            self._closed = True

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
        with self._turn:
            if self._closed:
                return
            done, total = self._counted
            self._drawn = progress, progress.add_task(self._what, completed=done, total=total)
            progress.start()


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
