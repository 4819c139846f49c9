"""Whether this head still leads: only the operator knows, once an heir is out of sight.

An heir that is lost may be dead, or may have lost us and lead by now. Until the operator has said
which, this head decides nothing. It waits for that as long as it takes: a head that went on without
an answer could be the second one.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from weft.agent.agent import Told
from weft.agent.pods.discovery import Announcer, Word, tell
from weft.agent.reports.operator_client import Destination

AGAIN_SECONDS: Final = 0.5


class Certainty:
    """Of one head; whatever the operator says is passed on."""

    def __init__(
        self,
        destination: Destination,
        announcer: Announcer,
        heard: Callable[[Word], None],
        told: Told,
    ) -> None:
        self._destination, self._announcer = destination, announcer
        self._heard, self._told = heard, told
        self.unsure: set[int] = set()  # seats that were lost, and may lead by now

    async def ask(self) -> Word | None:
        """Once, whether it leads and what is about to happen; None where nobody answers."""
        word = await asyncio.to_thread(tell, self._destination, self._announcer.head)
        if word is not None:
            self._heard(word)
        return word

    async def regain(self) -> bool:
        """Until it is known; whether this head leads on, without those who were lost."""
        unanswered = 0
        while self.unsure:
            asked = set(self.unsure)
            self._announcer.lose(asked)
            word = await self.ask()
            if word is None:
                unanswered += 1
                if unanswered == 1:
                    self._told("unsure", {"lost": sorted(asked), "why": "the operator is silent"})
                await asyncio.sleep(AGAIN_SECONDS)
            elif word.leads:
                self.unsure -= asked
            else:
                return False
        return True
