"""Messages as lines of JSON: one each, nothing pickled.

A line carries the job and the incarnation it belongs to and a running number, so that what comes
late or from an older start of the job is dropped. The control side refuses fields that it does not
know; a worker, which may be older than its agent, ignores them.
"""

import dataclasses
import functools
import json
import typing
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from weft.agent.messages import (  # noqa: F401 - all kinds
    control_store,
    membership,
    orders,
    seats,
    turns,
)
from weft.agent.messages.message import Figures, Json, Message
from weft.model.errors import ProtocolError

MOST_LINE_BYTES: Final = 1 << 20

KINDS: Final[dict[str, type[Message]]] = {kind.__name__: kind for kind in Message.__subclasses__()}


@dataclass(frozen=True, slots=True)
class Envelope:
    """Whose message it is: anything of another job or an older incarnation is dropped."""

    job: str
    incarnation: int
    seq: int
    message: Message


def encode(envelope: Envelope) -> bytes:
    """One line, with its end."""
    body = dataclasses.asdict(envelope.message)
    line = {
        "job": envelope.job,
        "incarnation": envelope.incarnation,
        "seq": envelope.seq,
        "type": type(envelope.message).__name__,
        "body": body,
    }
    return json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def decode(line: bytes, *, strict: bool) -> Envelope:
    """What a line says; `strict` refuses fields that the message does not have."""
    if len(line) > MOST_LINE_BYTES:
        raise ProtocolError(f"a message of {len(line):,} bytes", hint="the most is 1 MiB")
    raw = _object(line)
    name = raw.get("type")
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ProtocolError(f"no message is called {raw.get('type')!r}")
    return Envelope(
        job=_checked(str, raw.get("job"), "job"),
        incarnation=_checked(int, raw.get("incarnation"), "incarnation"),
        seq=_checked(int, raw.get("seq"), "seq"),
        message=_message(kind, raw.get("body"), strict=strict),
    )


def _object(line: bytes) -> Json:
    try:
        raw = json.loads(line, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"not a message: {error}") from error
    if not isinstance(raw, dict):
        raise ProtocolError("not a message: a JSON object was expected")
    return raw


def _no_number(text: str) -> Json:
    """JSON knows neither NaN nor infinity; Python's reader would take both."""
    raise ValueError(f"{text} is no number")


def _message(kind: type[Message], body: object, *, strict: bool) -> Message:
    if not isinstance(body, dict):
        raise ProtocolError(f"{kind.__name__} has no body")
    wanted = _fields(kind.__name__)
    unknown = sorted(set(body) - set(wanted))
    if unknown and strict:
        raise ProtocolError(f"{kind.__name__} has no field {unknown[0]!r}")
    values = {name: _checked(wanted[name], body[name], name) for name in body if name in wanted}
    try:
        return kind(**values)
    except TypeError as error:
        raise ProtocolError(f"{kind.__name__} is incomplete: {error}") from error


@functools.cache
def _fields(kind: str) -> dict[str, Any]:
    return typing.get_type_hints(KINDS[kind])


def _checked(wanted: Any, value: object, name: str) -> Any:  # noqa: ANN401 - types as values
    """`value` as the field's type, or an error that names the field."""
    found = _converted(wanted, value)
    if found is _REFUSED:
        kind = getattr(wanted, "__name__", wanted)
        raise ProtocolError(f"{name} is {str(value)[:100]!r}, which is no {kind}")
    return found


_REFUSED: Final = object()


def _converted(wanted: Any, value: object) -> object:  # noqa: ANN401
    if wanted is float:
        return _number(value)
    if wanted == Figures:
        return _figures(value)
    if typing.get_origin(wanted) is tuple:
        return _tuple(typing.get_args(wanted)[0], value)
    if typing.get_origin(wanted) is dict:
        return value if isinstance(value, dict) else _REFUSED
    if issubclass(wanted, StrEnum):
        return wanted(value) if value in list(wanted) else _REFUSED
    return value if type(value) is wanted else _REFUSED


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _REFUSED
    try:
        return float(value)
    except OverflowError:
        return _REFUSED


def _figures(value: object) -> object:
    if not isinstance(value, dict):
        return _REFUSED
    figures = {name: _number(figure) for name, figure in value.items()}
    return _REFUSED if _REFUSED in figures.values() else figures


def _tuple(each: type, value: object) -> object:
    if isinstance(value, list) and all(type(one) is each for one in value):
        return tuple(value)
    return _REFUSED
