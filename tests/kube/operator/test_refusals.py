"""The reason of a refused start, shown until a start succeeds."""

import pytest

from weft.brain.event import InstructionDone, InstructionRefused, Tick, Verb
from weft.kube.operator.refusals import Refusals
from weft.model.ids import JobId
from weft.model.reason import Reason, ReasonCode

VIT = JobId("lab/vit")
NUMBERS = {"delay": 5.0, "refusals": 3, "free": 1, "total": 8, "need": 2}
WHY = "Pod vit-1-0 is in the way. Remove it."


def refused(verb: Verb = Verb.START) -> InstructionRefused:
    return InstructionRefused(1.0, VIT, 1, verb, WHY)


def texts(refusals: Refusals, *codes: ReasonCode) -> list[str]:
    return [one.text for one in refusals.annotate(VIT, [Reason(code, NUMBERS) for code in codes])]


@pytest.mark.parametrize("code", [ReasonCode.ROUND_PENDING, ReasonCode.BACKOFF_REFUSED])
def test_a_job_that_waits_for_its_next_try_says_why_the_last_was_refused(code: ReasonCode) -> None:
    refusals = Refusals()
    refusals.record(refused())
    (text,) = texts(refusals, code)
    assert text.endswith(
        "The cluster rejected the last start: Pod vit-1-0 is in the way. Remove it."
    )


def test_other_reasons_stay_as_they_are() -> None:
    refusals = Refusals()
    plain = texts(refusals, ReasonCode.CAPACITY_BUSY, ReasonCode.ROUND_PENDING)
    refusals.record(refused(Verb.RESIZE))
    refusals.record(Tick(1.0))
    assert texts(refusals, ReasonCode.CAPACITY_BUSY, ReasonCode.ROUND_PENDING) == plain
    refusals.record(refused())
    assert texts(refusals, ReasonCode.CAPACITY_BUSY) == plain[:1]


@pytest.mark.parametrize("forgotten", [True, False])
def test_a_refusal_is_dropped_when_a_start_succeeds_or_the_job_is_gone(forgotten: bool) -> None:
    refusals = Refusals()
    plain = texts(refusals, ReasonCode.ROUND_PENDING)
    refusals.record(refused())
    if forgotten:
        refusals.forget(VIT)
    else:
        refusals.record(InstructionDone(2.0, VIT, 2, Verb.START))
    assert texts(refusals, ReasonCode.ROUND_PENDING) == plain
