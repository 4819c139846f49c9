"""Turns of the thread that reads ahead, of storage or of processors: whichever it mostly uses.

It holds nothing else while it waits, so nobody can wait for it in a ring. Workers of a gang read
without turns: one that waited to read would keep the others waiting in a collective.
"""

import time
from collections.abc import Callable
from typing import Final

from weft.agent.messages import Accompany, Names, Turn
from weft.agent.messages.turns import READER
from weft.train.company.lease_line import LeaseLine
from weft.train.company.usual import MOST_BOUND_SECONDS, Usual
from weft.train.data.loader_processes import Read
from weft.train.membership.contact import Contact
from weft.train.stages import Resource

MOSTLY: Final = 0.5


class ReadingTurns:
    """Of one loader's thread."""

    def __init__(self, contact: Contact, company: Callable[[], Accompany]) -> None:
        self._worker, self._company = contact.worker, company
        self._line = LeaseLine(contact, READER)
        self._usual = Usual()
        self._kinds: Names = (Resource.STORAGE.value,)

    def __call__(self, read: Callable[[], Read]) -> Read:
        """Read, in a turn where that is worth one."""
        company = self._company()
        if not company.folder:
            self._line.close()
            return read()
        kinds, asked = self._kinds, time.monotonic()
        if self._usual.is_worth_a_turn:
            self._line.ask(company.folder, self._turn(company.gpus, kinds), lambda: False)
        began = time.monotonic()
        try:
            return self._judged(read(), began)._replace(waited_seconds=began - asked)
        finally:
            self._usual.took(time.monotonic() - began)
            self._line.give_back(kinds, keep=True)

    def _turn(self, gpus: tuple[int, ...], kinds: Names) -> Turn:
        term = self._usual.term_seconds
        return Turn(0, (self._worker,), gpus, kinds, MOST_BOUND_SECONDS, term)

    def _judged(self, read: Read, began: float) -> Read:
        wall = time.monotonic() - began
        computes = read.busy_seconds > MOSTLY * wall
        self._kinds = (Resource.CPU.value if computes else Resource.STORAGE.value,)
        return read
