"""How the pods of one job find their head: by asking the operator, who knows which pods they are.

The head tells the operator its address and the job's key; a follower asks for both. Each is known
by the token of its own pod, so nobody else can learn the key or pose as the head. The operator
keeps this in memory only, so the head repeats it for as long as the job lasts.

The operator is also the arbiter of who leads. Heads have terms: a seat that has lost its head
claims the next one, and the first that does so gets it. From then on the head before it is refused.
One that loses an heir says whom it has lost before it goes on without it: those cannot claim any
more. Each answer was put on record first, so it holds for every operator that comes. So whatever is
cut off from what, one head at most goes on.
"""

import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, Final

from weft.agent.plan import Plan, parse_plan
from weft.agent.reports.operator_client import FAILURES, Answer, Destination, request
from weft.model.errors import SpecError, WorldError

HEAD: Final = "/head"
AGAIN_SECONDS: Final = 10.0  # until the head tells it once more
ORDERS_SECONDS: Final = 2.0  # the same of one that may be told to go to another plan
FIRST_RETRY_SECONDS: Final = 0.25
MOST_RETRY_SECONDS: Final = 5.0
SOON_SECONDS: Final = 2.0  # an operator that left gives no answer, and another may lead by now
OK: Final = 200
FIRST_TERM: Final = 1
GONE: Final = 410  # another seat leads
REFUSED: Final = frozenset({401, 403, 409, 410})  # not one of this job's pods, or not any more
REFUSED_SECONDS: Final = 20.0  # an operator may be behind, and not know a pod yet that it made
ADDRESS: Final = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:\s\[\]]+):(?P<port>[0-9]{1,5})")
KEY: Final = re.compile(r"[0-9a-f]{32,128}")

log = logging.getLogger(__name__)

Ask = Callable[[Destination, str, str, str, bytes | None], Answer]


@dataclass(frozen=True, slots=True)
class Head:
    """Where the head is, and what opens its door."""

    address: str
    key: str = field(repr=False)
    term: int = FIRST_TERM
    lost: tuple[int, ...] = ()

    def as_told(self, epoch: int) -> bytes:
        """To the operator; an older one knows no terms, and need not where none are spoken of."""
        told: dict[str, object] = {"epoch": epoch, "address": self.address, "key": self.key}
        if self.term > FIRST_TERM or self.lost:
            told |= {"term": self.term, "lost": self.lost}
        return json.dumps(told).encode()

    @property
    def host(self) -> str:
        return host_and_port(self.address)[0]


def host_and_port(address: str) -> tuple[str, int]:
    """The two parts of an address; one of IPv6 stands in brackets."""
    found = ADDRESS.fullmatch(address)
    if found is None:
        raise WorldError(f"{address!r} is no address", hint="it is written as host:port")
    return found["host"].strip("[]"), int(found["port"])


def address_of(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True, slots=True)
class PlanOrder:
    """A plan to go to, on so many GPUs, without those of the seats that are to leave."""

    serial: int
    plan: Plan
    width: int
    leaving: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Word:
    """What the operator says to a head: whether it leads, and which seats are about to go.

    An operator that knows no terms `moves` no head. One that stops the job wants it as a whole.
    Seats that were `lost` in whatever term cannot lead. One that `orders` plans takes answers, also
    while there is no `order`.
    """

    leads: bool
    moves: bool = False
    stopping: bool = False
    closed: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()
    why: str = ""
    orders: bool = False
    order: PlanOrder | None = None


soon: Final[Ask] = partial(request, seconds=SOON_SECONDS)


def tell(destination: Destination, head: Head, *, ask: Ask = soon) -> Word | None:
    """Say once that this head leads, or claim that it may; None where nobody answers that."""
    try:
        body = head.as_told(destination.epoch)
        answer = ask(destination, destination.token, "POST", HEAD, body)
    except FAILURES:
        return None
    return _word(answer)


class Announcer:
    """Tells where the head is, again and again, in a thread of its own."""

    def __init__(
        self,
        destination: Destination,
        head: Head,
        ask: Ask = request,
        heard: Callable[[Word], None] = lambda word: None,
    ) -> None:
        self.head = head
        self.every_seconds = AGAIN_SECONDS
        self._destination, self._ask, self._heard = destination, ask, heard
        self._patience = Patience(Random())
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="weft-meeting", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closed.set()

    def lose(self, seats: Iterable[int]) -> None:
        """Whoever is named cannot claim to lead any more."""
        self.head = replace(self.head, lost=tuple(sorted({*self.head.lost, *seats})))

    def turn(self) -> float:
        """Tell it once; gives the seconds until the next time."""
        try:
            token, body = self._destination.token, self.head.as_told(self._destination.epoch)
            answer = self._ask(self._destination, token, "POST", HEAD, body)
        except FAILURES as error:
            return self._patience.longer(f"{type(error).__name__}: {error}")
        word = _word(answer)
        if word is not None:
            self._heard(word)
        if answer.status == OK:
            self._patience.reset()
            return self.every_seconds
        why = f"{answer.status} {answer.error}"
        return self._patience.longer(why, answer.retry_after_seconds)

    def _run(self) -> None:
        wait = 0.0
        while not self._closed.wait(wait):
            wait = self.turn()


def present(destination: Destination, ask: Ask = soon) -> Head | None:
    """Who leads now, asked once; None where that is not known."""
    try:
        answer = ask(destination, destination.token, "GET", HEAD, None)
        return _head(answer.body) if answer.status == OK else None
    except (*FAILURES, WorldError):
        return None


def find(
    destination: Destination,
    limit_seconds: float,
    *,
    ask: Ask = request,
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[float], object] = time.sleep,
) -> Head:
    """Where the head is, as soon as it has said so; raises `WorldError` when it never does.

    A `wait` that gives something true ends the search.
    """
    search = _Search(clock, clock() + limit_seconds)
    while True:
        try:
            answer = ask(destination, destination.token, "GET", HEAD, None)
        except FAILURES as error:
            pause = search.unanswered(error)
        else:
            if answer.status == OK:
                return _head(answer.body)
            pause = search.not_yet(answer)
        if wait(pause):
            raise WorldError("the search for the head was given up")


class _Search:
    """How long to go on, and why it ends."""

    def __init__(self, clock: Callable[[], float], deadline: float) -> None:
        self._clock, self._deadline = clock, deadline
        self._patience = Patience(Random())
        self._refused_since: float | None = None

    def unanswered(self, error: Exception) -> float:
        return self._checked(self._patience.longer(f"{type(error).__name__}: {error}"))

    def not_yet(self, answer: Answer) -> float:
        if answer.status not in REFUSED:
            self._refused_since = None
        elif self._refused_since is None:
            self._refused_since = self._clock()
        elif self._clock() - self._refused_since > REFUSED_SECONDS:
            raise WorldError(
                f"this pod is not wanted: {answer.error or answer.status}",
                hint="its job was placed anew, or is over",
            )
        why = f"{answer.status} {answer.error}"
        return self._checked(self._patience.longer(why, answer.retry_after_seconds))

    def _checked(self, pause: float) -> float:
        if self._clock() + pause > self._deadline:
            raise WorldError(
                f"no head was found in time: {self._patience.why}",
                hint="see whether the pod of seat 0 runs",
            )
        return pause


class Patience:
    """Longer waits with each failure, and not in step with other pods."""

    def __init__(self, chance: Random) -> None:
        self._chance, self._failures = chance, 0
        self.why = ""

    def longer(self, why: str, at_least_seconds: float = 0.0) -> float:
        if why != self.why:
            log.warning("the meeting is delayed: %s", why)
        self.why = why
        longest = min(FIRST_RETRY_SECONDS * 2.0**self._failures, MOST_RETRY_SECONDS)
        self._failures = min(self._failures + 1, 16)
        bounded = min(at_least_seconds, MOST_RETRY_SECONDS)
        return max(longest * self._chance.uniform(0.5, 1.0), bounded)

    def reset(self) -> None:
        self._failures, self.why = 0, ""


def _word(answer: Answer) -> Word | None:
    """None where it is no word on who leads: the operator is busy, or does not lead itself."""
    if answer.status == GONE:
        return Word(leads=False, why=answer.error)
    if answer.status != OK:
        return None
    try:
        told = json.loads(answer.body)
        closed = frozenset(int(seat) for seat in told.get("closed", ()))
        lost = frozenset(int(seat) for seat in told.get("lost", ()))
        word = Word(True, "term" in told, bool(told.get("stopping")), closed, lost)
        return replace(word, orders="order" in told, order=_order(told.get("order")))
    except (ValueError, TypeError, AttributeError):
        return Word(leads=True)


def _order(told: dict[str, Any] | None) -> PlanOrder | None:
    """None also where it cannot be understood: then nobody answers, and it is called off."""
    try:
        if told is None:
            return None
        leaving = frozenset(int(seat) for seat in told.get("leaving", ()))
        return PlanOrder(int(told["serial"]), parse_plan(told["plan"]), int(told["width"]), leaving)
    except (SpecError, KeyError, ValueError, TypeError, AttributeError):
        return None


def _head(body: bytes) -> Head:
    try:
        told = json.loads(body)
        address, key = told["address"], told["key"]
        term, lost = int(told.get("term", FIRST_TERM)), tuple(map(int, told.get("lost", ())))
        if isinstance(address, str) and isinstance(key, str) and KEY.fullmatch(key):
            host_and_port(address)
            return Head(address, key, term, lost)
    except (ValueError, KeyError, TypeError):
        pass
    raise WorldError("the operator tells of a head that cannot be one")
