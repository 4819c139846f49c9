"""What is said arrives as it was said; what was never said is refused with its reason."""

import dataclasses
import json
import typing
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.agent.messages import (
    KINDS,
    MOST_LINE_BYTES,
    Answer,
    Committed,
    Envelope,
    Farewell,
    Leaving,
    Members,
    Message,
    Names,
    Prepare,
    Pulse,
    Staged,
    decode,
    encode,
)
from weft.model.errors import ProtocolError

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.text(max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
SCALARS: dict[type, st.SearchStrategy[Any]] = {
    int: st.integers(),
    float: NUMBERS,
    str: WORDS,
    bool: st.booleans(),
}


def values(wanted: object) -> st.SearchStrategy[Any]:
    """Anything that a field of this type may hold."""
    if isinstance(wanted, type) and wanted in SCALARS:
        return SCALARS[wanted]
    if wanted == Members:
        return st.lists(st.integers(), max_size=5).map(tuple)
    if wanted == Names:
        return st.lists(WORDS, max_size=5).map(tuple)
    if wanted == dict[str, float]:
        return st.dictionaries(WORDS, NUMBERS, max_size=3)
    if isinstance(wanted, type) and issubclass(wanted, StrEnum):
        return st.sampled_from(wanted)
    return st.dictionaries(WORDS, JSON, max_size=3)


def messages(kind: type[Message]) -> st.SearchStrategy[Message]:
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{name: values(hint) for name, hint in hints.items()})


ANY_MESSAGE = st.sampled_from(sorted(KINDS)).flatmap(lambda name: messages(KINDS[name]))


def line(message: Message, **changes: object) -> bytes:
    """A good line, with something changed."""
    raw = json.loads(encode(Envelope("job", 1, 1, message)))
    return json.dumps({**raw, **changes}).encode()


@pytest.mark.parametrize("name", sorted(KINDS))
@given(data=st.data(), job=WORDS, incarnation=st.integers(), seq=st.integers())
def test_every_kind_arrives_as_it_was_said(
    name: str, data: st.DataObject, job: str, incarnation: int, seq: int
) -> None:
    said = Envelope(job, incarnation, seq, data.draw(messages(KINDS[name])))
    raw = encode(said)
    assert raw.endswith(b"\n")
    assert raw.count(b"\n") == 1
    assert decode(raw, strict=True) == said
    assert decode(raw, strict=False) == said


def test_every_kind_of_message_is_known() -> None:
    assert set(KINDS) == {kind.__name__ for kind in Message.__subclasses__()}


@given(message=ANY_MESSAGE, name=st.text(min_size=1, max_size=10), value=JSON)
def test_an_unknown_field_is_refused_here_and_ignored_there(
    message: Message, name: str, value: object
) -> None:
    body = json.loads(encode(Envelope("job", 1, 1, message)))["body"]
    if name in body:
        return
    raw = line(message, body={**body, name: value})
    assert decode(raw, strict=False).message == message
    with pytest.raises(ProtocolError, match="has no field"):
        decode(raw, strict=True)


@given(message=ANY_MESSAGE, data=st.data())
def test_a_missing_field_is_refused_unless_it_may_be_left_out(
    message: Message, data: st.DataObject
) -> None:
    fields = dataclasses.fields(message)
    if not fields:
        return
    field = data.draw(st.sampled_from(fields))
    body = json.loads(encode(Envelope("job", 1, 1, message)))["body"]
    del body[field.name]
    raw = line(message, body=body)
    if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
        with pytest.raises(ProtocolError, match="incomplete"):
            decode(raw, strict=True)
    else:
        assert type(decode(raw, strict=True).message) is type(message)


@pytest.mark.parametrize(
    ("message", "name", "value"),
    [
        (Committed(1, 2), "epoch", "1"),
        (Committed(1, 2), "epoch", 1.5),
        (Committed(1, 2), "epoch", True),
        (Committed(1, 2), "epoch", None),
        (Prepare(1, (1,), ()), "members", 1),
        (Prepare(1, (1,), ()), "members", ["1"]),
        (Prepare(1, (1,), ()), "members", [True]),
        (Leaving(1, 2, Farewell.LEFT), "why", "bored"),
        (Leaving(1, 2, Farewell.LEFT), "why", []),
        (Pulse(1, 2, "forward", 0.0, 0, 0), "section_seconds", "long"),
        (Pulse(1, 2, "forward", 0.0, 0, 0), "section_seconds", True),
        (Pulse(1, 2, "forward", 0.0, 0, 0), "section_seconds", 10**400),
        (Pulse(1, 2, "forward", 0.0, 0, 0), "metrics", []),
        (Pulse(1, 2, "forward", 0.0, 0, 0), "metrics", {"loss": "low"}),
        (Pulse(1, 2, "forward", 0.0, 0, 0), "metrics", {"loss": None}),
        (Staged({}), "report", "fine"),
        (Answer(ok=True), "ok", 1),
        (Answer(ok=True), "body", None),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_a_field_of_another_type_is_refused(
    message: Message, name: str, value: object, strict: bool
) -> None:
    body = json.loads(encode(Envelope("job", 1, 1, message)))["body"]
    with pytest.raises(ProtocolError, match=name):
        decode(line(message, body={**body, name: value}), strict=strict)


@pytest.mark.parametrize("name", ["job", "incarnation", "seq", "type", "body"])
@pytest.mark.parametrize("value", [None, [], {"a": 1}, 1.5, True])
def test_an_envelope_of_another_shape_is_refused(name: str, value: object) -> None:
    with pytest.raises(ProtocolError):
        decode(line(Committed(1, 2), **{name: value}), strict=True)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ProtocolError, match="'Explode'"):
        decode(line(Committed(1, 2), type="Explode"), strict=False)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_is_neither_said_nor_heard(number: str) -> None:
    pulse = Pulse(1, 2, "forward", 0.0, 0, 0, {"loss": float(number)})
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode(Envelope("job", 1, 1, pulse))
    raw = line(Pulse(1, 2, "forward", 0.5, 0, 0)).replace(b"0.5", number.encode())
    with pytest.raises(ProtocolError):
        decode(raw, strict=True)


def test_a_message_may_be_so_long_and_no_longer() -> None:
    frame = len(line(Staged({"text": ""})))
    fits = line(Staged({"text": "x" * (MOST_LINE_BYTES - frame)}))
    assert len(fits) == MOST_LINE_BYTES
    decode(fits, strict=True)
    with pytest.raises(ProtocolError, match="bytes"):
        decode(fits + b" ", strict=True)


def test_depth_is_no_way_to_bring_the_agent_down() -> None:
    deep = b'{"type":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(ProtocolError):
        decode(deep, strict=True)


@given(noise=st.binary(max_size=200))
def test_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(noise, strict=True)


@given(text=JSON)
def test_json_that_is_no_message_is_refused(text: object) -> None:
    with pytest.raises(ProtocolError):
        decode(json.dumps(text).encode(), strict=False)
