"""What makes a seat the head: it is announced, certain that it still leads, and has named heirs.

The operator says who leads. Until it has answered for an heir that is out of reach, this head
decides nothing, for that heir may lead by now.
"""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from weft.agent.coordination.heirs import heirs_of
from weft.agent.messages import Heirs, Members
from weft.agent.pods.certainty import Certainty
from weft.agent.pods.discovery import ORDERS_SECONDS, Announcer, Head, Word
from weft.agent.pods.mandate import Mandate

if TYPE_CHECKING:
    from weft.agent.pods.head import HeadAgent


class HeadRole:
    """Of one head, from its announcement until it has moved."""

    def __init__(self, head: "HeadAgent", mandate: Mandate | None) -> None:
        self._head = head
        self.word = mandate.word if mandate else Word(leads=True)
        # Seats that may claim to lead: named here, or by a head before this one.
        self.ever_heirs: set[int] = set(mandate.expected) if mandate else set()
        self._announcer: Announcer | None = None
        self._certainty: Certainty | None = None
        self._told: Heirs | None = None

    @property
    def term(self) -> int:
        return self._announcer.head.term if self._announcer else 0

    @property
    def certainty(self) -> Certainty:
        assert self._certainty is not None, "without an operator there is nobody to ask"
        return self._certainty

    def announce(self, told: Head) -> None:
        """To the operator, and to the workers of this seat."""
        head, destination = self._head, self._head.pod.destination
        assert destination is not None
        loop = asyncio.get_running_loop()

        def heard(word: Word) -> None:
            with suppress(RuntimeError):  # all is over
                loop.call_soon_threadsafe(self._operator_said, word)

        head.run_folder.write_head(told.term, str(head.run_folder.socket))
        self._announcer = Announcer(destination, told, heard=heard)
        self._certainty = Certainty(destination, self._announcer, self._operator_said, head.tell)
        self._announcer.start()
        head.tell("listening", {"address": told.address, "term": told.term})

    def close(self) -> None:
        if self._announcer is not None:
            self._announcer.close()

    @property
    def heirs(self) -> Members:
        """Who may lead next, if anybody may."""
        head = self._head
        if not (self.word.moves and head.started and head.coordinator.elastic):
            return ()
        if head.is_ending:
            return ()
        out = head.followers.leaving | self.word.lost
        seats = [seat for seat in head.followers.hosts if seat not in out]
        members = set(head.coordinator.members)
        standing = {seat: len(members & {*head.places.workers_on(seat)}) for seat in seats}
        return heirs_of(standing, self.word.closed)

    def tell_heirs(self) -> None:
        """All followers, where it has changed since they were told."""
        head, heirs = self._head, self.heirs
        seats, mind = tuple(sorted(head.followers.hosts)), head.coordinator
        told = Heirs(
            self.term,
            seats,
            heirs,
            mind.members,
            mind.next_worker,
            plan=str(mind.plans.of(mind.members)),
            turning=mind.plans.turning,
            offers=mind.offers,
        )
        if told == self._told:
            return
        self._told = told
        self.ever_heirs.update(heirs)
        for seat in seats:
            head.server.order(seat, told)

    def tell_all_again(self) -> None:
        """Somebody has come who has not heard it."""
        self._told = None

    def ask_whether_it_leads(self, seat: int) -> None:
        """An heir is lost, or it has lost us and leads: nothing is decided until that is known."""
        self._head.coordinator.barred = True
        self.certainty.unsure.add(seat)
        if len(self.certainty.unsure) == 1:
            self._head.keep(self._be_sure())

    async def _be_sure(self) -> None:
        if await self.certainty.regain():
            self._head.coordinator.barred = False

    def _operator_said(self, word: Word) -> None:
        if not word.leads:
            self._head.depose(word.why)
            return
        self.word = word
        self._head.orders.hear(word)

    def listen_for_orders(self) -> None:
        """More often than to who leads: training may wait for them."""
        if self._announcer is not None:
            self._announcer.every_seconds = ORDERS_SECONDS
