"""Reasons as values: every code has a cause, a sentence with numbers, a remedy and an anchor."""

import string

import pytest

from weft.model.errors import (
    IllegalTransition,
    InfeasibleSpec,
    InvariantBreach,
    JournalError,
    ProtocolError,
    SpecError,
    TraceFault,
    UnknownName,
    WeftError,
)
from weft.model.reason import CAUSES, Cause, Reason, ReasonCode

NUMBERS: dict[str, float | int | str] = {
    "need": 16,
    "silent": 2,
    "free": 5,
    "total": 64,
    "used": 12,
    "limit": 24,
    "queue": "vision",
    "largest": 4,
    "nodes": 3,
    "slowdown": 1.25,
    "fewest": 2,
    "racks": 5,
    "fewest_racks": 3,
    "bound": 300.0,
    "other": 7,
    "reserved": 9,
    "holder": "gang",
    "ahead": 11,
    "lost": 8,
    "failures": 2,
    "losses": 5,
    "refusals": 6,
    "refusal": "Cannot start as alice: no permission for /opt.",
    "delay": 1234.0,
    "cpus": 48.0,
    "memory": 96.0,
    "aside": 40,
    "avoided": "n17",
    "off": 900.0,
    "held": "hdfs does not answer",
    "service": "hdfs",
}


def fields_of(sentence: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name}


@pytest.mark.parametrize("code", ReasonCode, ids=lambda code: code.slug)
def test_a_reason_renders_with_its_numbers(code: ReasonCode) -> None:
    needed = fields_of(code.sentence) | fields_of(code.remedy)
    reason = Reason(code, {name: NUMBERS[name] for name in needed})
    assert fields_of(code.sentence), "a sentence without a number helps nobody"
    for name in fields_of(code.sentence):
        shown = NUMBERS[name]
        assert (f"{shown:g}" if isinstance(shown, float) else str(shown)) in reason.text
    assert reason.text.endswith(".") and reason.remedy
    assert reason.cause is code.cause and code.cause in CAUSES


@pytest.mark.parametrize("code", ReasonCode, ids=lambda code: code.slug)
def test_a_reason_without_its_numbers_does_not_render(code: ReasonCode) -> None:
    with pytest.raises(KeyError):
        _ = Reason(code).text


def test_names_and_anchors_are_unique() -> None:
    assert len({code.slug for code in ReasonCode}) == len(ReasonCode)
    assert len({code.anchor for code in ReasonCode}) == len(ReasonCode)
    assert ReasonCode.QUOTA_LIMIT.anchor == "reasons.md#quota-limit"


def test_every_cause_but_none_can_be_booked_and_has_a_reason() -> None:
    assert set(CAUSES) == set(Cause) - {Cause.NONE}
    assert {code.cause for code in ReasonCode} == set(CAUSES)
    assert Cause.FRAGMENTATION.label == "fragmentation"
    assert [int(cause) for cause in CAUSES] == list(range(1, len(CAUSES) + 1)), "rows of a table"


@pytest.mark.parametrize(
    ("error", "family"),
    [
        (UnknownName, SpecError),
        (InfeasibleSpec, SpecError),
        (TraceFault, SpecError),
        (IllegalTransition, ProtocolError),
        (SpecError, WeftError),
        (ProtocolError, WeftError),
        (JournalError, WeftError),
        (InvariantBreach, WeftError),
    ],
)
def test_errors_form_a_tree_and_carry_a_hint(
    error: type[WeftError], family: type[WeftError]
) -> None:
    raised = error("what happened", hint="what to do")
    assert isinstance(raised, family)
    assert (str(raised), raised.hint) == ("what happened", "what to do")
    assert error("no advice").hint == ""
