"""Notices on their way: one thread sends them, and nobody ever waits for it.

There is room for so many; what comes when it is full is left out and counted. A target that does
not answer gets a few tries, ever later, behind the notices for others; then the notice is dropped
and the log says so, without what was in it.
"""

import heapq
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from weft.notify.notice import Notice
from weft.notify.subscription import Subscriptions
from weft.notify.target import NotSent, Target

log = logging.getLogger(__name__)

MOST_WAITING: Final = 1_000
MOST_TRIES: Final = 5
FIRST_PAUSE_SECONDS: Final = 1.0
FACTOR: Final = 4.0


@dataclass(order=True, slots=True)
class _Letter:
    due: float
    order: int
    target: str = field(compare=False)
    notice: Notice = field(compare=False)
    tries: int = field(compare=False, default=0)


class Outbox:
    """Takes notices; `put` never blocks and never raises."""

    def __init__(
        self,
        targets: Mapping[str, Target],
        subscriptions: Subscriptions,
        *,
        pause_seconds: float = FIRST_PAUSE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._targets, self._subscriptions = targets, subscriptions
        self._pause, self._clock = pause_seconds, clock
        self._letters: list[_Letter] = []
        self._changed = threading.Condition()
        self._order = 0
        self._closed = False
        self._thread: threading.Thread | None = None
        self.sent = self.dropped = 0

    def put(self, notice: Notice, asked: Mapping[str, tuple[str, ...]] | None = None) -> None:
        """For everybody whom the job's file (`asked`: occasion by targets) or a rule names."""
        for name in self._subscriptions.targets(notice, asked or {}):
            if name in self._targets:
                self._add(name, notice)
            else:
                log.warning("%s: there is no target %r", notice.job, name[:64])

    def close(self, seconds: float = 0.0) -> None:
        """Stop, after so many seconds at most for what is due."""
        deadline = self._clock() + seconds
        with self._changed:
            while self._letters and self._clock() < deadline:
                self._changed.wait(0.05)
            self._closed = True
            self._changed.notify_all()

    def _add(self, target: str, notice: Notice) -> None:
        with self._changed:
            if self._closed or len(self._letters) >= MOST_WAITING:
                self.dropped += 1
                return
            self._order += 1
            heapq.heappush(self._letters, _Letter(self._clock(), self._order, target, notice))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="weft-notify", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _run(self) -> None:
        while (letter := self._next()) is not None:
            try:
                self._targets[letter.target].send(letter.notice)
                self.sent += 1
            except NotSent as error:
                self._put_off(letter, error)
            except Exception:  # a defect of a target must not silence the others
                self.dropped += 1
                log.exception("a notice for %s was dropped", letter.target)

    def _next(self) -> _Letter | None:
        """The next that is due; None when this is over."""
        with self._changed:
            while not self._closed:
                if not self._letters:
                    self._changed.notify_all()
                    self._changed.wait()
                    continue
                left = self._letters[0].due - self._clock()
                if left <= 0:
                    return heapq.heappop(self._letters)
                self._changed.wait(left)
        return None

    def _put_off(self, letter: _Letter, error: NotSent) -> None:
        letter.tries += 1
        if not error.again or letter.tries >= MOST_TRIES:
            self.dropped += 1
            log.warning("a notice for %s was dropped: %s", letter.target, error)
            return
        letter.due = self._clock() + self._pause * FACTOR ** (letter.tries - 1)
        with self._changed:
            heapq.heappush(self._letters, letter)
