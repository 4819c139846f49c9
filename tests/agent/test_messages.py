"""What is said is what is heard, and nothing else is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.agent.messages import (
    KINDS,
    MOST_LINE_BYTES,
    Envelope,
    Farewell,
    Leaving,
    Message,
    Prepare,
    Resize,
    decode,
    encode,
)
from weft.model.errors import ProtocolError

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**53), 2**53),
    float: NUMBERS,
    str: st.text(max_size=50),
    bool: st.booleans(),
    Farewell: st.sampled_from(Farewell),
    tuple[int, ...]: st.lists(st.integers(0, 1000), max_size=5).map(tuple),
    dict[str, float]: st.dictionaries(st.text(max_size=10), NUMBERS, max_size=3),
    dict[str, Any]: st.dictionaries(st.text(max_size=10), st.integers(), max_size=3),
}


def messages(kind: type[Message]) -> st.SearchStrategy[Message]:
    hints = {name: BY_TYPE[kind_of] for name, kind_of in _hints(kind).items()}
    return st.builds(kind, **hints)


def _hints(kind: type[Message]) -> dict[str, Any]:
    import typing  # noqa: PLC0415

    return typing.get_type_hints(kind)


def line(**changed: object) -> bytes:
    whole = {"job": "j", "incarnation": 1, "seq": 1, "type": "Resize", "body": {"width": 2}}
    return json.dumps({**whole, **changed}).encode()


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_kind_comes_through(kind: type[Message]) -> None:
    @given(messages(kind), st.integers(0, 2**53))
    def holds(message: Message, seq: int) -> None:
        envelope = Envelope("team/job", 3, seq, message)
        assert decode(encode(envelope), strict=True) == envelope

    holds()


def test_the_control_side_refuses_what_it_does_not_know_and_a_worker_ignores_it() -> None:
    said = line(body={"width": 2, "colour": "red"})
    with pytest.raises(ProtocolError, match="no field 'colour'"):
        decode(said, strict=True)
    assert decode(said, strict=False).message == Resize(2)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"not json",
        b"[]",
        b"{}",
        b'{"type": "Resize"}',
        line(type="Explode"),
        line(type=["Resize"]),
        line(body=[]),
        line(body={}),
        line(body={"width": "2"}),
        line(body={"width": 2.5}),
        line(body={"width": True}),
        line(body={"width": None}),
        line(job=7),
        line(incarnation="1"),
        line(seq=None),
        line(type="Prepare", body={"epoch": 1, "members": [0, "1"], "joiners": []}),
        line(type="Leaving", body={"epoch": 1, "step": 2, "why": "bored"}),
        b"[" * 100_000,
        b" " * (MOST_LINE_BYTES + 1),
    ],
)
def test_what_is_no_message_is_refused(said: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(said, strict=True)


def test_numbers_that_are_none_cannot_be_said() -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode(Envelope("j", 1, 1, KINDS["Ready"](float("nan"), True)))  # type: ignore[call-arg]


def test_members_stay_in_their_order() -> None:
    said = Prepare(4, (3, 1, 2), (2,))
    assert decode(encode(Envelope("j", 1, 1, said)), strict=True).message == said


def test_a_farewell_is_one_of_three() -> None:
    said = encode(Envelope("j", 1, 1, Leaving(1, 2, Farewell.LEFT)))
    assert decode(said, strict=True).message == Leaving(1, 2, Farewell.LEFT)
