"""Where the workers of a job find their head.

A job that is resized while it trains has one agent that leads, on its first seat to begin with, and
others that join it from pods that may come and go. The head says at which address it listens and by
which key its own are known; the others ask. Both go through the operator, because it alone knows
which pod belongs to which job and epoch: a pod reads and writes for its own job only, and only the
head writes.

Who leads is on record (`weft.kube.reports.headship`). Where it listens is held in memory and
nowhere else. The head repeats it with its reports, so an operator that has just begun to lead knows
it again after a moment. It is forgotten with the epoch.
"""

import asyncio
import ipaddress
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Final
from weakref import WeakValueDictionary

from pydantic import AfterValidator, Field

from weft.kube.names import HEAD_SEAT
from weft.kube.reports.headship import FIRST, Headship
from weft.kube.reports.payload import Closed, Count, checked
from weft.kube.reports.refusal import Refusal

MOST_HEADS: Final = 20_000
RETRY_SECONDS: Final = 1.0
HIGHEST_PORT: Final = 65_535
MOST_TERMS: Final = 1_000_000
MOST_LOST: Final = 1_024
KEY: Final = re.compile("([0-9a-f]{2}){16,128}")


@dataclass(frozen=True, slots=True)
class Head:
    """Where the head of one incarnation listens; the key is never shown."""

    epoch: int
    address: str
    key: str = field(repr=False)
    headship: Headship = FIRST

    @property
    def answer(self) -> dict[str, Any]:
        told = {"epoch": self.epoch, "address": self.address, "key": self.key}
        return {**told, "term": self.headship.term, "lost": self.headship.lost}


def read_head(body: bytes, *, epoch: int, seat: int = HEAD_SEAT) -> Head:
    """What the head of that epoch says of itself, or a `Refusal`."""
    said = checked(_Said, body)
    if said.epoch != epoch:
        raise Refusal(
            409,
            f"this pod is of epoch {epoch} and speaks of epoch {said.epoch}",
            hint="Send the epoch in $WEFT_EPOCH.",
        )
    if seat != HEAD_SEAT and said.term == 1:
        raise Refusal(403, "this pod is not the head of its job", hint="Ask for the head by GET.")
    return Head(said.epoch, said.address, said.key, Headship(seat, said.term, tuple(said.lost)))


class Meetings:
    """The head of each job's present epoch, by the job's uid; the oldest is forgotten first."""

    def __init__(self, most: int = MOST_HEADS) -> None:
        self._most = most
        self._heads: OrderedDict[str, Head] = OrderedDict()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._heads)

    def turn(self, job: str) -> asyncio.Lock:
        """Of those who say that they lead a job, one at a time is heard."""
        return self._turns.setdefault(job, asyncio.Lock())

    def say(self, job: str, head: Head) -> None:
        self._heads[job] = head
        self._heads.move_to_end(job)
        if len(self._heads) > self._most:
            self._heads.popitem(last=False)

    def head(self, job: str, epoch: int) -> Head:
        """Where that job's head is in that epoch; a `Refusal` while it has not said so."""
        found = self._heads.get(job)
        if found is None or found.epoch != epoch:
            raise Refusal(
                404,
                "the head of this job has not said yet where it is",
                hint="Ask again: it does so when it has started, and with each report.",
                retry_after_seconds=RETRY_SECONDS,
            )
        return found

    def keep(self, lasts: Callable[[str, int], bool]) -> None:
        """Forget all whose job and epoch are over."""
        for job in [job for job, head in self._heads.items() if not lasts(job, head.epoch)]:
            del self._heads[job]


def _address(text: str) -> str:
    """`ip:port`; what is wrong with it is said without repeating it."""
    host, _, port = text.rpartition(":")
    try:
        ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        raise ValueError("no address of a pod") from None
    if not (port.isascii() and port.isdecimal() and 0 < int(port) <= HIGHEST_PORT):
        raise ValueError("no port")
    return text


def _key(text: str) -> str:
    if not KEY.fullmatch(text):
        raise ValueError("no key")
    return text


class _Said(Closed):
    epoch: Count
    address: Annotated[str, Field(max_length=64), AfterValidator(_address)]
    key: Annotated[str, Field(max_length=256), AfterValidator(_key)]
    term: Annotated[int, Field(ge=1, le=MOST_TERMS)] = 1
    lost: Annotated[list[Count], Field(max_length=MOST_LOST)] = Field(default_factory=list)
