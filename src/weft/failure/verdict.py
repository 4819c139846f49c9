"""What follows from a failure: another try after a rest, or the end.

Pure functions of the evidence and of what came before it; the brain carries them out.
"""

from dataclasses import dataclass

from weft.failure.backoff import Backoff
from weft.failure.evidence import Failure, FailureClass
from weft.model.ids import NodeId

SURROUNDINGS = frozenset({FailureClass.SERVICE, FailureClass.NODE})


@dataclass(frozen=True, slots=True)
class History:
    """Failures of the job so far, this one among them, and the retries that it is allowed."""

    failures: int
    max_retries: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """Try again after so many seconds (None: give up), and why.

    `avoid` are nodes to stay away from if there are others; `roll_back` goes on from the checkpoint
    before the last one; `change` takes up what the job offers to change.
    """

    retry_after_seconds: float | None
    why: str
    advice: str = ""
    avoid: tuple[NodeId, ...] = ()
    roll_back: bool = False
    change: bool = False


@dataclass(frozen=True, slots=True)
class Loss:
    """How often in a row the job has lost a worker to its surroundings, and its rest after that."""

    in_a_row: int
    rest_seconds: float


def judge_loss(failure: Failure, before: int, ran_seconds: float, backoff: Backoff) -> Loss:
    """A lost worker is no failure of its job and costs no retry, but nobody restarts without end.

    `before` are those in a row so far. Who was merely asked to leave goes on at once. A run that
    was longer than the longest rest shows that its surroundings can carry it: the count begins
    anew. A node may fail once before anybody rests, since another node is as good as a later hour.
    """
    if failure.kind not in SURROUNDINGS:
        return Loss(before, 0.0)
    times = 1 if ran_seconds >= backoff.cap_seconds else before + 1
    rests = times - 1 if failure.kind is FailureClass.NODE else times
    return Loss(times, backoff.after(rests) if rests else 0.0)


def judge(failure: Failure, history: History, backoff: Backoff) -> Verdict:
    """Give up where another try would end the same way, or where enough have."""
    if not failure.retryable:
        return Verdict(None, f"{failure}; another try would end the same way")
    if history.failures > history.max_retries:
        return Verdict(
            None, f"{failure}; failed {history.failures} times with {history.max_retries} retries"
        )
    tries = f"try {history.failures} of {history.max_retries}"
    return Verdict(backoff.after(history.failures), f"{failure}; {tries}")
