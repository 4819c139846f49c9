"""JSON that can be trusted to be what was written, and read so that it can do no harm.

A sealed document begins with the SHA-256 of itself, taken with zeros in its place; so a flipped bit
anywhere is noticed before the first brace is parsed. The digest is no signature: whoever may write
below the root can seal what he likes. Therefore the parser takes no duplicate keys, no NaN, no
depth and no numbers beyond bounds, and each field is read by name and type.
"""

import json
import math
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from weft.agent.checkpoint.errors import Damaged

Json = Any

MOST_COUNT: Final = 2**53 - 1
MOST_DEPTH: Final = 64
MOST_DIGITS: Final = 40
_OPENING: Final = b'{"digest":"'
_CLOSING: Final = b'",'
_BLANK: Final = b"0" * 64
_BODY: Final = len(_OPENING) + 64


def seal(body: Mapping[str, Json]) -> bytes:
    """The document as bytes, with its digest."""
    rest = _CLOSING + plain(body)[1:] + b"\n"
    digest = sha256(_OPENING + _BLANK + rest).hexdigest()
    return _OPENING + digest.encode() + rest


def unseal(data: bytes, where: str) -> Json:
    """The body of a sealed document; refused when a single bit differs."""
    if not data.startswith(_OPENING) or data[_BODY : _BODY + 2] != _CLOSING:
        raise Damaged(f"{where} is no sealed document")
    digest = sha256(_OPENING + _BLANK + data[_BODY:]).hexdigest()
    if data[len(_OPENING) : _BODY] != digest.encode():
        raise Damaged(f"{where} is not what was written: its digest differs")
    body = parse(data, where)
    if not isinstance(body, dict):
        raise Damaged(f"{where} is no object")
    del body["digest"]
    return body


def plain(value: Json) -> bytes:
    """Compact JSON, the keys in the order in which they are."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def canonical(value: Json) -> bytes:
    """Compact JSON that is equal where the values are equal."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False).encode()


def parse(data: bytes, where: str) -> Json:
    """Strict JSON."""
    try:
        value = json.loads(
            data.decode(),
            object_pairs_hook=_without_duplicates,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_bounded,
        )
        _check_depth(value)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{where} is not strict JSON: {str(error)[:120]}") from error
    return value


class Fields:
    """An object of a document, read field by field; what is not as it must be is `Damaged`."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise Damaged(f"{where} is no object")
        self._value: dict[str, Json] = value
        self._where = where

    def only(self, *names: str) -> None:
        """Exactly these."""
        if odd := set(self._value) ^ set(names):
            raise Damaged(f"{self._where}: {min(odd)[:64]!r} is missing or unknown")

    def value(self, name: str) -> Json:
        if name not in self._value:
            raise Damaged(f"{self._where} has no {name}")
        return self._value[name]

    def count(self, name: str, *, least: int = 0) -> int:
        return _count(self.value(name), f"{self._where}: {name}", least)

    def counts(self, name: str, *, most: int) -> tuple[int, ...]:
        where = f"{self._where}: {name}"
        return tuple(_count(value, where, 0) for value in self.items(name, most=most))

    def number(self, name: str) -> float:
        value = self.value(name)
        if type(value) not in (int, float) or not 0 <= value <= MOST_COUNT:
            raise Damaged(f"{self._where}: {name} is no number in bounds")
        return float(value)

    def text(self, name: str, *, most: int) -> str:
        value = self.value(name)
        if not isinstance(value, str) or len(value) > most or not value.isprintable():
            raise Damaged(f"{self._where}: {name} is no short and printable text")
        return value

    def digest(self, name: str) -> str:
        return check_digest(self.value(name), f"{self._where}: {name}")

    def items(self, name: str, *, most: int) -> Sequence[Json]:
        value = self.value(name)
        if not isinstance(value, list) or len(value) > most:
            raise Damaged(f"{self._where}: {name} is no list of at most {most:,}")
        return value


def check_digest(value: object, where: str) -> str:
    """64 digits, in small letters."""
    if not isinstance(value, str) or len(value) != len(_BLANK):
        raise Damaged(f"{where} is no digest")
    if not set(value) <= set("0123456789abcdef"):
        raise Damaged(f"{where} is no digest")
    return value


def _count(value: object, where: str, least: int) -> int:
    if type(value) is not int or not least <= value <= MOST_COUNT:
        raise Damaged(f"{where} is no count in bounds")
    return value


def _without_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key stands twice in an object")
    return value


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def _bounded(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError("a number has too many digits")
    return int(text)


def _check_depth(value: Json) -> None:
    """By rings instead of recursion, so that the depth cannot do harm here either."""
    ring = [value]
    for _ in range(MOST_DEPTH):
        ring = [inner for outer in ring for inner in _inside(outer)]
        if not ring:
            return
    raise ValueError(f"it is nested deeper than {MOST_DEPTH}")


def _inside(value: Json) -> list[Json]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [one for one in inner if isinstance(one, dict | list)]
