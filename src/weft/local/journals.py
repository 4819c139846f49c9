"""Where the brain's journal goes, if anybody wants one: a file for each term.

A term begins with a fresh brain, so each has a journal of its own, which replays by itself. Every
record is written through, so that a kill loses none of them.
"""

from dataclasses import asdict
from io import FileIO
from pathlib import Path

from weft import __version__
from weft.brain.brain import Settings
from weft.brain.journal import Journal
from weft.model.queue import QueueTree


class Journals:
    """Opens the next one when called; what is there already is left alone."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._open: FileIO | None = None

    def __call__(self, recipe: str, settings: Settings) -> Journal:
        self.close()
        if self._path is None:
            return Journal()
        self._open = _next_free(self._path).open("wb", buffering=0)
        header = {
            "weft": __version__,
            "recipe": recipe,
            "seed": 0,
            "queues": [asdict(queue) for queue in QueueTree().queues],
            "settings": asdict(settings),
        }
        return Journal(self._open, header)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def _next_free(path: Path) -> Path:
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_stem(f"{path.stem}-{number}")
    return free
