"""Where the head of this worker's job is, by a file that the agent of its pod keeps.

A head may be lost or leave, and another seat leads then. The agent of each pod finds out, and
writes the term and the address of the present one into a file beside the job's key. A worker looks
there, a few times a second and when its connection ends. Its own agent holds a lock for as long as
it lives: without one nobody would end this process, so it ends itself.
"""

import fcntl
import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from weft.agent.wire.orders import CARD

LOOK_SECONDS: Final = 0.05


class Heads:
    """The present one, and whether there is a newer one."""

    def __init__(self, file: Path, address: str) -> None:
        self._file, self.address, self.term = file, address, 0
        self.moved: list[Callable[[], None]] = []  # whom it concerns that another leads
        self._lock = threading.Lock()

    def look(self) -> bool:
        """Whether another leads than the one that was known; it is known from now on."""
        with self._lock, suppress(OSError, ValueError, KeyError, TypeError):
            told = json.loads(self._file.read_text())
            term, address = int(told["term"]), str(told["address"])
            newer, first = term > self.term, self.term == 0
            if newer:
                self.term, self.address = term, address
            return newer and not first
        return False

    def is_newer(self) -> bool:
        """The same, and nothing changes by it."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            return 0 < self.term < int(json.loads(self._file.read_text())["term"])
        return False

    def agent_lives(self) -> bool:
        """Whether somebody looks after this process: whoever does holds the card."""
        try:
            with (self._file.parent / CARD).open() as card:
                fcntl.flock(card, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def wait(self, seconds: float) -> bool:
        """Until another leads; whether one does."""
        deadline = time.monotonic() + seconds
        while not self.look():
            if time.monotonic() > deadline or not self.agent_lives():
                return False
            time.sleep(LOOK_SECONDS)
        return True
