"""Sealed documents: every flipped bit is noticed, and no JSON does harm."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.agent.checkpoint.document import MOST_DEPTH, Fields, canonical, parse, plain, seal, unseal
from weft.agent.checkpoint.errors import Damaged

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text().filter(lambda key: key != "digest"), VALUES, min_size=1))
def test_a_document_is_read_as_it_was_sealed(body: dict[str, object]) -> None:
    assert unseal(seal(body), "here") == body


def test_a_document_is_plain_json() -> None:
    assert json.loads(seal({"step": 3}))["step"] == 3


def test_every_single_flipped_bit_is_noticed() -> None:
    data = seal({"step": 3, "text": "ab", "list": [1, 2.5, None]})
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            with pytest.raises(Damaged):
                unseal(bytes(flipped), "here")


def test_every_truncation_is_noticed() -> None:
    data = seal({"step": 3})
    for length in range(len(data)):
        with pytest.raises(Damaged):
            unseal(data[:length], "here")
    with pytest.raises(Damaged):
        unseal(data + b" ", "here")


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"a":2}',
        b'{"a":{"b":1,"b":1}}',
        b"NaN",
        b"[Infinity]",
        b"[-Infinity]",
        b"1e999",
        b"[" + b"9" * 41 + b"]",
        b"9" * 10_000,
        b"[" * (MOST_DEPTH + 1) + b"]" * (MOST_DEPTH + 1),
        b"[" * 200_000,
        b'{"a":' * 100_000,
        b"\xef\xbb\xbf{}",
        b"\xff\xfe{\x00}\x00",
        b'{"a":"\xff"}',
        b"{} {}",
        b"{'a':1}",
        b'{"a":1,}',
        b"",
        b'"\x01"',
    ],
    ids=lambda text: repr(text[:16]),
)
def test_json_that_is_not_strict_is_refused(text: bytes) -> None:
    with pytest.raises(Damaged):
        parse(text, "here")


def test_nesting_up_to_the_bound_is_read() -> None:
    assert parse(b"[" * 60 + b"]" * 60, "here")


@pytest.mark.parametrize("value", [True, 1.0, -1, 2**53, "1", None, [1]])
def test_only_a_count_is_a_count(value: object) -> None:
    with pytest.raises(Damaged):
        Fields({"n": value}, "here").count("n")


@pytest.mark.parametrize("value", [True, -1.0, 2.0**60, "1", None])
def test_only_a_number_is_a_number(value: object) -> None:
    with pytest.raises(Damaged):
        Fields({"n": value}, "here").number("n")


@pytest.mark.parametrize("value", ["A" * 64, "a" * 63, "g" * 64, 5, None])
def test_only_a_digest_is_a_digest(value: object) -> None:
    with pytest.raises(Damaged):
        Fields({"n": value}, "here").digest("n")


def test_unknown_and_missing_fields_are_named() -> None:
    with pytest.raises(Damaged, match="'b'"):
        Fields({"a": 1, "b": 2}, "here").only("a")
    with pytest.raises(Damaged, match="'c'"):
        Fields({"a": 1}, "here").only("a", "c")


def test_the_order_of_keys_is_kept_or_fixed() -> None:
    assert plain({"b": 1, "a": 2}) == b'{"b":1,"a":2}'
    assert canonical({"b": 1, "a": 2}) == canonical({"a": 2, "b": 1})
