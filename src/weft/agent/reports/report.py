"""How far the training is, told to the operator: now and then, and never at the training's cost.

Posts go out in a thread of their own, at most one in ten seconds, and one in two where there is
news. What waits to be sent is one report, and a newer one takes its place, so a slow or absent
operator costs nothing but the reports in between. Nothing that happens here is raised into the
agent.

What the answers mean:

    200                  heard
    408, 429, 5xx, none  try again, each time later, and not before the answer's `Retry-After`
    401, 403, 409, 410   the operator does not listen to this pod: its epoch is over, or its token
                         is. Silence, until there is a newer epoch or another token to try, or
                         five minutes later: the operator may only have been behind
    the rest             this report is not to its taste: it is dropped, and the next one is sent
"""

import hashlib
import json
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from weft.agent.reports.operator_client import (
    FAILURES,
    MOST_RETRY_SECONDS,
    REQUEST_SECONDS,
    Answer,
    Destination,
    post,
)
from weft.agent.reports.profile import Profile
from weft.agent.reports.speed import Measured

EVERY_SECONDS: Final = 10.0
SOON_SECONDS: Final = 2.0
FIRST_RETRY_SECONDS: Final = 1.0
REFUSED_SECONDS: Final = 300.0

# Bounds of the endpoint (`weft.kube.reports.payload`): what is beyond them is left out, or cut.
MOST_COUNT: Final = 2**53 - 1
MOST_NUMBER: Final = 1e18
MOST_MESSAGE_CHARS: Final = 256
MOST_OFFERS: Final = 32
RESOURCES: Final = ("storage", "cpu", "gpu", "network")
LOSS: Final = "loss"

logger = logging.getLogger("weft.agent.reports.report")


@dataclass(frozen=True, slots=True)
class OrderAnswer:
    """What came of an order to go to another plan."""

    serial: int
    reached: bool
    why: str = ""
    paused_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the workers said last; None is what they did not say.

    `step` counts the steps that are done, `width` the workers that train now; `live` is whether
    that can be changed while they do. Of the metrics `loss` has a place of its own, the others
    are told in words. `stages` is the report of `weft.train.stages`, `speed` what was measured
    while the width stood still, `profile` what a step does alone, or `profile_in_turns` what it
    does in company as long as it has never been alone, `paused_seconds` how long the last resize
    kept it from training, `save_every_seconds` the time between two checkpoints. To an operator
    that orders plans also as what the program can be run (`offers`), and what came of the last
    order.
    """

    step: int
    epoch: int
    total_steps: int | None = None
    checkpoint_step: int | None = None
    samples: int | None = None
    samples_per_second: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    stages: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""
    width: int | None = None
    live: bool | None = None
    speed: Measured | None = None
    profile: Profile | None = None
    profile_in_turns: Profile | None = None
    paused_seconds: float | None = None
    save_every_seconds: float | None = None
    offers: tuple[str, ...] = ()
    order: OrderAnswer | None = None


Transport = Callable[[Destination, str, bytes], Answer]


class Reporter:
    """Sends the newest of what is said. Without a destination it hears everything and says nothing.

    `start` begins the thread; without it, `turn` is one look at whether something is due.
    """

    def __init__(
        self,
        destination: Destination | None,
        *,
        every_seconds: float = EVERY_SECONDS,
        transport: Transport = post,
        clock: Callable[[], float] = time.monotonic,
        chance: Random | None = None,
    ) -> None:
        self._destination = destination
        self._every_seconds = every_seconds
        self._transport = transport
        self._clock = clock
        self._chance = chance or Random()
        self._news = threading.Condition()
        self._waiting: Said | None = None
        self._posting = False
        self._not_before = self._posted_at = -math.inf
        self._failures = 0
        self._refused: _Refused | None = None
        self._closing = False
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="report", daemon=True)

    def start(self) -> None:
        if self._destination is not None:
            self._thread.start()

    def say(self, said: Said, *, soon: bool = False) -> None:
        """Send this when the time has come, in place of anything said before.

        What is news is not held back for its turn; by an operator that is away it is.
        """
        with self._news:
            if self._destination is None or self._closing:
                return
            self._waiting = said
            if soon and not self._failures:
                self._not_before = min(self._not_before, self._posted_at + SOON_SECONDS)
            self._news.notify()

    def close(self, timeout_seconds: float = REQUEST_SECONDS) -> bool:
        """Send what waits, at once; whether it was sent, or there was nothing, in that time."""
        with self._news:
            self._closing = True
            self._not_before, self._failures = -math.inf, 0
            self._news.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)
        else:
            self.turn()
        with self._news:
            done = self._waiting is None and not self._posting
            self._ended = True
            self._news.notify()
        if not done:
            self._log(logging.WARNING, "last_report_not_sent")
        return done

    def turn(self) -> None:
        """Post what is due, if anything is."""
        with self._news:
            said, destination = self._waiting, self._destination
            if said is None or destination is None or self._clock() < self._not_before:
                return
            self._waiting = None
            self._posting = True
            self._posted_at = self._clock()
            self._not_before = self._posted_at + self._every_seconds
        try:
            self._deliver(destination, said)
        except Exception as error:
            self._log(logging.ERROR, "report_failed", error=f"{type(error).__name__}: {error}")
        finally:
            with self._news:
                self._posting = False

    def _run(self) -> None:
        while self._until_due():
            self.turn()

    def _until_due(self) -> bool:
        """Wait for something to post; False where nothing will come any more."""
        with self._news:
            while self._waiting is None or self._clock() < self._not_before:
                if self._ended or (self._waiting is None and self._closing):
                    return False
                wait = None if self._waiting is None else self._not_before - self._clock()
                self._news.wait(wait)
            return True

    def _deliver(self, destination: Destination, said: Said) -> None:
        try:
            token = destination.token
            if self._is_refused(said.epoch, token):
                return
            answer = self._transport(destination, token, body_of(said))
        except FAILURES as error:
            self._try_again(said, error=f"{type(error).__name__}: {error}")
            return
        if answer.status in AGAIN or answer.status >= SERVER_FAULT:
            self._try_again(said, answer.retry_after_seconds, status=answer.status)
        elif answer.status in REFUSED:
            self._be_silent(said.epoch, token, answer)
        elif answer.status in HEARD:
            self._was_heard()
        else:
            self._log(logging.WARNING, "report_rejected", status=answer.status, error=answer.error)

    def _is_refused(self, epoch: int, token: str) -> bool:
        refused = self._refused
        return (
            refused is not None
            and epoch <= refused.epoch
            and _digest(token) == refused.token_digest
            and self._clock() < refused.until
        )

    def _be_silent(self, epoch: int, token: str, answer: Answer) -> None:
        self._refused = _Refused(epoch, _digest(token), self._clock() + REFUSED_SECONDS)
        self._log(
            logging.WARNING,
            "reports_refused",
            told_epoch=epoch,
            status=answer.status,
            error=answer.error,
        )

    def _was_heard(self) -> None:
        self._refused = None
        if self._failures:
            self._log(logging.INFO, "reports_resumed", failures=self._failures)
        self._failures = 0

    def _try_again(self, said: Said, at_least_seconds: float = 0.0, **why: object) -> None:
        """Later each time and never in step with other pods; a newer report goes before this."""
        longest = min(FIRST_RETRY_SECONDS * 2.0 ** min(self._failures, 16), MOST_RETRY_SECONDS)
        wait = max(longest * self._chance.uniform(0.5, 1.0), at_least_seconds)
        level = logging.DEBUG if self._failures else logging.WARNING
        with self._news:
            self._failures += 1
            self._not_before = self._clock() + wait
            if self._waiting is None:
                self._waiting = said
        self._log(level, "report_not_sent", retry_seconds=round(wait, 3), **why)

    def _log(self, level: int, event: str, **fields: object) -> None:
        known = self._destination
        named = {"job": known.job, "epoch": known.epoch} if known else {}
        _log(level, event, **named, **fields)


def body_of(said: Said) -> bytes:
    """The report in the shape that the operator takes; what it would refuse is left out."""
    step = _count(said.step) or 0
    loss = _number(said.metrics.get(LOSS))
    rate = said.samples_per_second
    if rate is None:
        rate = said.stages.get("samples_per_second")
    fields = {
        "step": step,
        "total_steps": _count(said.total_steps, least=max(step, 1)),
        "checkpoint_step": _count(said.checkpoint_step, most=step),
        "samples": _count(said.samples),
        "loss": loss,
        "throughput": _number(rate, least=0.0),
        "stages": _stage_seconds(said.stages),
        "message": _message(said, told_loss=loss is not None),
        "width": _count(said.width),
        "live": said.live,
        "speed": _speed(said.speed),
        "profile": _profile(said.profile),
        "profile_in_turns": _profile(said.profile_in_turns),
        "paused_seconds": _number(said.paused_seconds, least=0.0),
        "save_every_seconds": _number(said.save_every_seconds, least=0.0),
        "offers": [_printable(name) for name in said.offers[:MOST_OFFERS]],
        "order": _answer(said.order),
    }
    told = {name: value for name, value in fields.items() if value not in (None, "", {}, [])}
    return json.dumps(told, separators=(",", ":"), allow_nan=False).encode()


HEARD: Final = range(200, 300)
AGAIN: Final = frozenset({408, 425, 429})
REFUSED: Final = frozenset({401, 403, 409, 410})
SERVER_FAULT: Final = 500


@dataclass(frozen=True, slots=True)
class _Refused:
    """Whom the operator did not listen to, and until when it is not asked again."""

    epoch: int
    token_digest: bytes
    until: float


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _count(value: int | None, *, least: int = 0, most: int = MOST_COUNT) -> int | None:
    return value if value is not None and least <= value <= most else None


def _number(value: object, *, least: float = -MOST_NUMBER) -> float | None:
    """A finite number within bounds, whatever else a worker called a metric."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if least <= value <= MOST_NUMBER else None


def _speed(measured: Measured | None) -> dict[str, Any]:
    """As it was measured; nothing of a measurement that cannot be."""
    if measured is None:
        return {}
    told = {
        "number": _count(measured.number),
        "width": _count(measured.width),
        "steps_per_second": _number(measured.steps_per_second, least=0.0),
        "seconds": _number(measured.seconds, least=0.0),
    }
    if not all(told.values()):
        return {}
    return {**{name: value for name, value in told.items() if value}, **_turns(measured)}


def _turns(measured: Measured) -> dict[str, Any]:
    """Said only where it is so: an operator that knows nothing of turns takes the others."""
    return {"shared": True} if measured.shared else {}


def _answer(answer: OrderAnswer | None) -> dict[str, Any]:
    if answer is None or not _count(answer.serial, least=1):
        return {}
    told = {"serial": answer.serial, "reached": answer.reached, "why": _printable(answer.why)}
    paused = _number(answer.paused_seconds, least=0.0)
    return told if paused is None else told | {"paused_seconds": paused}


def _profile(profile: Profile | None) -> dict[str, Any]:
    """What one step does, if all of it is within bounds."""
    told = {} if profile is None else profile.as_json()
    return told if all(_number(value, least=0.0) is not None for value in told.values()) else {}


def _stage_seconds(report: Mapping[str, Any]) -> dict[str, float]:
    """What a step keeps busy for how long, of the resources that the operator knows."""
    found = report.get("resources")
    if not isinstance(found, Mapping):
        return {}
    seconds = {name: _number(found.get(name), least=0.0) for name in RESOURCES}
    return {name: value for name, value in seconds.items() if value is not None}


def _message(said: Said, *, told_loss: bool) -> str:
    """The workers' own words, and as many of the metrics without a place of their own as fit."""
    words = _printable(said.message)
    for name, value in said.metrics.items():
        shown = "" if name == LOSS and told_loss else _shown(value)
        longer = f"{words} {_printable(name)}={shown}".lstrip()
        if shown and len(longer) <= MOST_MESSAGE_CHARS:
            words = longer
    return words


def _shown(value: object) -> str:
    """A metric in words, even one that is no finite number; nothing for what is no number."""
    number = value if isinstance(value, float) else _number(value)
    return "" if number is None else f"{number:.6g}"


def _printable(text: str) -> str:
    return "".join(char for char in text if char.isprintable())[:MOST_MESSAGE_CHARS]


def _log(level: int, event: str, **fields: object) -> None:
    logger.log(level, "%s", event, extra={"event_fields": fields})
