"""How a head leaves: its own workers go first, then an heir leads, and the job trains on.

Whoever stops the whole job says so when it is asked. The operator may be leaving the same node: it
is asked again until another one leads. If no seat can lead, or it takes too long, the job is
drained as a whole in what is left of the grace.
"""

import asyncio
import time
from typing import TYPE_CHECKING, Final

from weft.agent.coordination.actions import Conclude
from weft.agent.messages import Lead
from weft.agent.outcome import DRAINED, Outcome

if TYPE_CHECKING:
    from weft.agent.pods.head import HeadAgent

PART_OF_GRACE: Final = 0.5  # in which another is to lead; the rest is for a drain
PART_FOR_WRITING: Final = 0.5  # of that, for a snapshot that others are writing with this seat
LED_SECONDS: Final = 4.0  # for an heir to ask the operator
LOOK_SECONDS: Final = 0.025
AGAIN_SECONDS: Final = 0.25


class SteppingDown:
    """Of one head, once it is asked to leave."""

    def __init__(self, head: "HeadAgent") -> None:
        self._head = head
        self._led: asyncio.Future[bool] | None = None

    @property
    def is_possible(self) -> bool:
        head = self._head
        return head.role.word.moves and (head.succession is not None or bool(head.role.heirs))

    def heir_said(self, seat: int, ok: bool) -> None:
        """Whether it leads now; one that is lost does not. From then on nothing is done here."""
        if self._led is None or self._led.done():
            return
        self._led.set_result(ok)
        if ok:
            self._head.tell("handed over", {"seat": seat})
            self._head.go(Conclude(Outcome.DRAINED, DRAINED, "another seat leads"))

    async def run(self, since: float, grace_seconds: float) -> None:
        head, patience = self._head, PART_OF_GRACE * grace_seconds
        deadline = since + patience
        if await self._is_wanted(deadline):
            await self._written(since + PART_FOR_WRITING * patience)
            if await self._hand_over(deadline):
                return
        if not head.has_moved:
            head.drain(max(grace_seconds - (time.monotonic() - since), 0.0))

    async def _is_wanted(self, deadline: float) -> bool:
        """Whether the job is to train on; an operator that has just begun hears who leads it."""
        while (word := await self._head.role.certainty.ask()) is None:
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(AGAIN_SECONDS)
        return word.leads and not word.stopping

    async def _written(self, deadline: float) -> None:
        """A snapshot that is on its way to the disk is lost if nobody waits for its parts here; all
        train on meanwhile."""
        while self._head.writer.busy and time.monotonic() < deadline:
            await asyncio.sleep(LOOK_SECONDS)

    async def _hand_over(self, deadline: float) -> bool:
        """Nothing is left to do here but to lead, when another begins to."""
        head = self._head
        while head.succession is not None:
            await asyncio.sleep(LOOK_SECONDS)
        if not head.leave_home():
            return False
        while head.places.workers_on(head.home):
            if time.monotonic() > deadline or not head.role.heirs:
                return False
            await asyncio.sleep(LOOK_SECONDS)
        while head.role.heirs and time.monotonic() < deadline:
            for heir in head.role.heirs:
                if await self._hand_over_to(heir):
                    return True
            await asyncio.sleep(AGAIN_SECONDS)
            if not await self._is_wanted(deadline):
                return False
        return False

    async def _hand_over_to(self, heir: int) -> bool:
        self._led = asyncio.get_running_loop().create_future()
        self._head.server.order(heir, Lead())
        done, _ = await asyncio.wait((self._led,), timeout=LED_SECONDS)
        return bool(done) and self._led.result()
