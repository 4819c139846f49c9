"""Views as plain JSON values, and back.

Fields that a reader does not know are left alone, and a missing field that has a default gets it:
a client and a server one version apart understand each other. Anything else that does not fit is a
`ProtocolError` that names the field. JSON has no word for a number that is none: it is null there,
and read as NaN where a number must stand.
"""

import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from math import isfinite, nan
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from weft.model.errors import ProtocolError

View = TypeVar("View")
Json = Any  # what `json` reads and writes
Kind = Any  # a type, as a value
Reader = Callable[[Json], Any]


def to_json(value: object) -> Json:
    """The value in dicts, lists, strings and numbers."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(inner) for inner in value]
    if isinstance(value, frozenset | set):
        return sorted(to_json(inner) for inner in value)
    return _scalar(value)


def from_json(kind: type[View], told: object) -> View:
    """The view of that kind that was written so."""
    try:
        read: Reader = _reader(kind)  # type: ignore[arg-type]  # a class is hashable
        view: View = read(told)
    except (TypeError, ValueError, KeyError) as fault:
        raise ProtocolError(
            f"this is no {kind.__name__}: {fault}",
            hint="are the command and the server of the same version?",
        ) from fault
    return view


def _scalar(value: object) -> Json:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and not isfinite(value):
        return None
    return value


@cache
def _reader(kind: Kind) -> Reader:  # noqa: PLR0911 - a table of kinds
    """How a value of that type is read; worked out once for each type."""
    origin: Kind = get_origin(kind)
    inner = get_args(kind)
    if origin in (Union, UnionType):
        return _optional(next(each for each in inner if each is not NoneType))
    if origin is tuple:
        return _many(tuple, inner[0])
    if origin is frozenset:
        return _many(frozenset, inner[0])
    if origin is dict:
        return _mapping(inner[1])
    if is_dataclass(kind):
        return _record(kind)
    if kind is datetime:
        return datetime.fromisoformat
    if kind is bytes:
        return base64.b64decode
    if kind is Any:
        return lambda told: told
    return _member(kind) if issubclass(kind, Enum) else _plain(kind)


def _optional(inner: Kind) -> Reader:
    read = _reader(inner)
    return lambda told: None if told is None else read(told)


def _many(make: Callable[[Iterable[object]], object], inner: Kind) -> Reader:
    read = _reader(inner)

    def several(told: Json) -> object:
        if not isinstance(told, list):
            raise TypeError(f"a list is wanted, not {told!r}")
        return make(map(read, told))

    return several


def _mapping(inner: Kind) -> Reader:
    read = _reader(inner)
    return lambda told: {str(key): read(value) for key, value in _mapped(told).items()}


def _record(kind: Kind) -> Reader:
    hints = get_type_hints(kind)
    known = [(field.name, _reader(hints[field.name]), _required(field)) for field in fields(kind)]

    def record(told: Json) -> object:
        given = _mapped(told)
        found = {}
        for name, read, required in known:
            if name in given:
                try:
                    found[name] = read(given[name])
                except (TypeError, ValueError) as fault:
                    raise ValueError(f"{name}: {fault}") from fault
            elif required:
                raise ValueError(f"it lacks '{name}'")
        return kind(**found)

    return record


def _member(kind: Kind) -> Reader:
    make: Reader = kind
    return make


def _plain(kind: Kind) -> Reader:
    def plain(told: Json) -> object:
        if kind is float:
            return nan if told is None else _checked(told, (int, float))
        return _checked(told, kind)

    return plain


def _checked(told: Json, kind: Kind) -> object:
    """Python counts True as a number; JSON does not."""
    if not isinstance(told, kind) or (isinstance(told, bool) and kind is not bool):
        raise TypeError(f"{told!r} is of another type")
    return told


def _mapped(told: Json) -> dict[str, Any]:
    if not isinstance(told, dict):
        raise TypeError(f"an object is wanted, not {told!r}")
    return told


def _required(field: "Field[Any]") -> bool:
    return field.default is MISSING and field.default_factory is MISSING
