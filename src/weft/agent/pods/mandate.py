"""How a follower without a head comes to another one, or to lead itself.

The first heir claims at once, the next one a moment later: if the first is gone too, nobody waits
for it. Who is about to leave claims last.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from socket import socket
from typing import Final

from weft.agent.coordination.heirs import MOST_HEIRS
from weft.agent.coordination.limits import Limits
from weft.agent.messages import Brought, Heirs, Members, Names
from weft.agent.plan import Plan
from weft.agent.pods.discovery import Head, Word
from weft.agent.run_folder import RunFolder
from weft.agent.settings import Pod
from weft.agent.workers.processes import Processes

BACKLOG: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Mandate:
    """The operator lets this seat lead: with what stands here, and with whom to expect.

    Members compute under `plan`, and may have been `turning` to another one.
    """

    head: Head
    listening: socket
    expected: frozenset[int]
    members: Members
    next_worker: int
    plan: Plan
    turning: bool
    offers: Names
    owed: bool
    brought: dict[int, Brought]
    ended: dict[int, int]
    run_folder: RunFolder
    processes: Processes
    word: Word
    terminated: bool


@dataclass(slots=True)
class Search:
    """For a head that leads: whose turn it is, and when it is over."""

    heirs: Heirs
    pod: Pod
    lost: Head
    limits: Limits
    since_seconds: float
    _newest: int = field(init=False)

    def __post_init__(self) -> None:
        self._newest = self.lost.term

    def leads(self, found: Head) -> bool:
        """Whether that is another head, and not one that was found dead; or a claim of our own."""
        return found.term > self._newest and found.host != self.pod.host

    def is_dead(self, found: Head) -> None:
        """It has claimed to lead, and nobody is there."""
        self._newest = found.term

    def ends(self, found: Head | None, now: float) -> str:
        """Why nobody is looked for any longer; empty if one may be found yet."""
        if found is not None and self.pod.seat in found.lost and found.term >= self.lost.term:
            return "the head has counted this seat as lost"
        if now - self.since_seconds > self.limits.headless_seconds:
            return "the head is gone, and no other was found"
        return ""

    def may_claim(self, now: float, standing: Collection[int], *, leaves: bool) -> int | None:
        """The term to claim, once it is this seat's turn; not without a member that stands here."""
        if self.pod.seat not in self.heirs.heirs or not {*standing} & {*self.heirs.members}:
            return None
        turn = self.heirs.heirs.index(self.pod.seat) + (MOST_HEIRS if leaves else 0)
        if now - self.since_seconds < turn * self.limits.claim_seconds:
            return None
        return self._newest + 1
