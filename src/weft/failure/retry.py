"""Whether a job is tried again, when and where: a verdict on a diagnosis and on what was before.

Three things can make another try worth its GPUs: that the cause is outside of the job, that it may
not come again, or that the last try got somewhere. So what counts against a job are attempts with
one fingerprint between which no checkpoint was made: a third one is the last, whatever the class
says, and a job that saves something new each time is never stopped. The same failure on nodes that
the first try did not touch is the job's own, except where the kernel itself names the machine.

A service is given more patience than that, because nothing in the job could end its silence; the
breaker (`breaker`) holds back whoever need not even try.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final

from weft.failure.backoff import Backoff
from weft.failure.classes import FailureClass, NodeAction, Retry
from weft.failure.diagnosis import Diagnosis
from weft.failure.lines import Stream
from weft.failure.verdict import Verdict
from weft.model.ids import JobId, NodeId

DAY_SECONDS: Final = 86_400.0
LATE_SECONDS: Final = 3_600.0
JITTER: Final = 0.2
RESTS: Final = Backoff(first_seconds=60.0, cap_seconds=1_800.0)
MOST_AVOIDED: Final = 16

BUDGETS: Final = {
    Retry.STOP: 1,  # late failures only: memory that grows, one bad shard
    Retry.CHANGE: 1,
    Retry.CONFIRM: 2,
    Retry.BACK_OFF: 5,
    Retry.MOVE: 10,
    Retry.ROLL_BACK: 2,
}
"""Tries in a day by what is hoped of them, counted anew with each new checkpoint."""

FREE: Final = frozenset({Retry.MOVE, Retry.REQUEUE})
"""What is no fault of the job costs none of the retries that its owner allows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What holds for a job's retries; `may_change` where it offers to need less, or to get more."""

    max_retries: int = 3
    may_change: bool = False
    same_attempts: int = 3
    service_attempts: int = 6
    rests: Backoff = RESTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The try that failed: its end, its length, its nodes, and the last step that is saved."""

    job: JobId
    at_seconds: float
    ran_seconds: float
    nodes: frozenset[NodeId] = frozenset()
    saved: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryState:
    """What is remembered of a job's failures: little enough to be written down at each of them."""

    fingerprint: str = ""
    attempts: int = 0  # in a row with that fingerprint and nothing new saved
    nodes: frozenset[NodeId] = frozenset()  # of the first of these
    saved: int | None = None
    charged: int = 0  # of the retries that the owner allows
    spent: tuple[tuple[Retry, float], ...] = field(default=())
    avoid: tuple[NodeId, ...] = ()
    service: str = ""  # that did not answer it at last

    def told(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "fingerprint": self.fingerprint,
            "attempts": self.attempts,
            "nodes": sorted(self.nodes),
            "saved": self.saved,
            "charged": self.charged,
            "spent": [[what.value, at] for what, at in self.spent],
            "avoid": list(self.avoid),
            "service": self.service,
        }

    def as_of(self, at_seconds: float) -> "RetryState":
        """Where the clock was set back since: no try was made after now."""
        return replace(self, spent=tuple((what, min(at, at_seconds)) for what, at in self.spent))

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> "RetryState":
        """What `told` told."""
        return cls(
            fingerprint=told["fingerprint"],
            attempts=told["attempts"],
            nodes=frozenset(map(NodeId, told["nodes"])),
            saved=told["saved"],
            charged=told["charged"],
            spent=tuple((Retry(what), at) for what, at in told["spent"]),
            avoid=tuple(map(NodeId, told["avoid"])),
            service=told.get("service", ""),
        )


FRESH = RetryState()


def decide(
    found: Diagnosis, run: Run, state: RetryState = FRESH, terms: Terms | None = None
) -> tuple[Verdict, RetryState]:
    """Try again or give up, and what to remember of it."""
    terms = terms or Terms()
    if found.kind is FailureClass.CANCELLED:
        return _stop(found, found.kind.meaning), state
    if found.cure is Retry.REQUEUE:
        return Verdict(0.0, f"{found}; it goes on when there is room"), state
    now = _counted(found, run, state)
    end = _ended_by_repetition(found, run, now, terms)
    worth_it = _gained(run, state) and (terms.max_retries or found.cure in FREE)
    if not end and not worth_it:
        end = _ended_by_class(found, run, now, terms)
    if end:
        return _stop(found, end), now
    hasty = bool(state.attempts) and run.ran_seconds < terms.rests.first_seconds
    return _again(found, run, now, terms, least=terms.rests.first_seconds if hasty else 0.0)


def _counted(found: Diagnosis, run: Run, state: RetryState) -> RetryState:
    """With this failure: a new checkpoint, or another fingerprint, begins a new count."""
    saved = run.saved if run.saved is not None else state.saved
    if _advanced(run, state):
        state = replace(state, fingerprint="", attempts=0, charged=0, spent=(), avoid=())
    recent = tuple(one for one in state.spent if run.at_seconds - one[1] < DAY_SECONDS)
    same = found.fingerprint == state.fingerprint
    return replace(
        state,
        fingerprint=found.fingerprint,
        attempts=state.attempts + 1 if same else 1,
        nodes=state.nodes if same else run.nodes,
        saved=saved,
        spent=recent,
        service=found.service,
    )


def _advanced(run: Run, state: RetryState) -> bool:
    return run.saved is not None and (state.saved is None or run.saved > state.saved)


def _gained(run: Run, state: RetryState) -> bool:
    """Whether the try that the last verdict allowed has saved something: then it was worth it."""
    return bool(state.attempts) and _advanced(run, state)


def _ended_by_repetition(found: Diagnosis, run: Run, now: RetryState, terms: Terms) -> str:
    service = found.kind is FailureClass.SERVICE
    most = terms.service_attempts if service else terms.same_attempts
    if now.attempts >= most:
        return f"{now.attempts} attempts ended so with no new checkpoint between them"
    elsewhere = now.attempts > 1 and run.nodes and now.nodes and run.nodes.isdisjoint(now.nodes)
    if elsewhere and not service and found.stream is not Stream.KERNEL:
        return "it ended so on other nodes too: the job is at fault"
    return ""


def _ended_by_class(found: Diagnosis, run: Run, now: RetryState, terms: Terms) -> str:
    """What the class says, the budget of the day, and what the owner allows."""
    end = _CLASS_ENDS.get(found.cure, _never)(found, run, now, terms)
    if end:
        return end
    spent = sum(what is found.cure for what, _ in now.spent)
    if spent >= BUDGETS[found.cure]:
        return f"tried again {spent} times within a day already"
    if found.cure not in FREE and now.charged >= terms.max_retries:
        return f"failed {now.charged + 1} times with {terms.max_retries} retries"
    return ""


def _never(found: Diagnosis, run: Run, now: RetryState, terms: Terms) -> str:
    return ""


def _unless_late(found: Diagnosis, run: Run, now: RetryState, terms: Terms) -> str:
    """What ends the same way anywhere may still be one bad shard, if it took an hour to come."""
    late = run.ran_seconds > LATE_SECONDS
    return "" if late and now.attempts == 1 else "another try would end the same way"


def _unless_changed(found: Diagnosis, run: Run, now: RetryState, terms: Terms) -> str:
    return "" if terms.may_change else _unless_late(found, run, now, terms)


def _unless_new(found: Diagnosis, run: Run, now: RetryState, terms: Terms) -> str:
    return "" if now.attempts == 1 else "it ended the same way again"


_CLASS_ENDS: Final[dict[Retry, Callable[[Diagnosis, Run, RetryState, Terms], str]]] = {
    Retry.STOP: _unless_late,
    Retry.CHANGE: _unless_changed,
    Retry.CONFIRM: _unless_new,
}


def _again(
    found: Diagnosis, run: Run, now: RetryState, terms: Terms, *, least: float
) -> tuple[Verdict, RetryState]:
    blamed = found.node is not None and found.node_action > NodeAction.NONE
    avoid = (*now.avoid, found.node) if blamed and found.node not in now.avoid else now.avoid
    if found.cure is Retry.CONFIRM:
        avoid = (*avoid, *sorted(run.nodes - set(avoid)))
    after = replace(
        now,
        charged=now.charged + (found.cure not in FREE),
        spent=(*now.spent, (found.cure, run.at_seconds)),
        avoid=tuple(one for one in avoid if one)[-MOST_AVOIDED:],
    )
    verdict = Verdict(
        max(least, _rest_seconds(found, run, after, terms)),
        f"{found}; {_HOPES[found.cure]}",
        advice=found.advice,
        avoid=after.avoid,
        roll_back=found.cure is Retry.ROLL_BACK,
        change=found.cure is Retry.CHANGE and terms.may_change,
    )
    return verdict, after


def _rest_seconds(found: Diagnosis, run: Run, after: RetryState, terms: Terms) -> float:
    """A service gets ever more time; a node may fail once before anybody rests."""
    times = sum(what is found.cure for what, _ in after.spent)
    if found.cure is Retry.BACK_OFF:
        return terms.rests.after(times) * (1.0 + JITTER * drawn(run.job, times))
    return terms.rests.after(times - 1) if found.cure is Retry.MOVE and times > 1 else 0.0


def drawn(job: JobId, salt: object) -> float:
    """A number from 0 to 1 that is always the same for them, and for others another one."""
    digest = blake2b(f"{job}\n{salt}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def _stop(found: Diagnosis, why: str) -> Verdict:
    return Verdict(None, f"{found}; {why}", advice=found.counsel(given_up=True))


_HOPES: Final = {
    Retry.STOP: "it came late, so one more try shows whether it comes again",
    Retry.CHANGE: "one more try with what the job offers to change",
    Retry.CONFIRM: "one more try shows whether it comes again",
    Retry.BACK_OFF: "tried again later",
    Retry.MOVE: "it goes on elsewhere",
    Retry.ROLL_BACK: "it goes on from an older checkpoint",
}
