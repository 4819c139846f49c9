"""Text to plain values: the part of YAML that a job file needs, and JSON.

A file comes from anybody, so the reader is bounded before it builds anything: bytes, nodes and
depth. Anchors, aliases, tags and repeated keys are refused. Only words that look like a number,
`true`, `false` or `null` become other than text; YAML's older habits (`yes` is true, `010` is
eight, `1:30` is ninety) are left out, because they surprise.
"""

import json
import pathlib
import re
import reprlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import orjson
import yaml

from weft.model.errors import SpecError

MAX_BYTES: Final = 256 * 1024
MAX_NODES: Final = 2_000
MAX_DEPTH: Final = 8
MAX_DIGITS: Final = 18

Path = tuple[str | int, ...]

_NULL: Final = frozenset(("", "~", "null", "Null", "NULL"))
_BOOL: Final = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_INT = re.compile(rf"[-+]?(0|[1-9][0-9]{{0,{MAX_DIGITS - 1}}})")
_FLOAT = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})(\.[0-9]{1,18})?([eE][-+]?[0-9]{1,3})?")
_STRING_TAG: Final = "tag:yaml.org,2002:str"
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Document:
    """Plain values, and the line on which each of them was written, where that is known."""

    value: object
    lines: dict[Path, int] = field(default_factory=dict)


def read_bounded(path: pathlib.Path) -> bytes:
    """What stands in the file, at most a little more than a document may hold."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SpecError(
            f"{path}: cannot be read: {error.strerror}", hint="check the path"
        ) from error


def parse_document(text: str | bytes, *, name: str) -> Document:
    """YAML or JSON text; `name` is how messages call it."""
    plain = _decoded(text, name)
    if plain.lstrip().startswith("{"):
        try:
            return Document(_json(plain, name))
        except ValueError:
            pass  # a flow mapping of YAML begins in the same way
    return _Builder(name).document(plain)


def _decoded(text: str | bytes, name: str) -> str:
    try:
        raw = text.encode() if isinstance(text, str) else text
        plain = text if isinstance(text, str) else raw.decode()
    except UnicodeError:
        raise SpecError(f"{name}: is not UTF-8 text", hint="save it as UTF-8") from None
    if len(raw) > MAX_BYTES:
        raise SpecError(
            f"{name}: is {len(raw)} bytes long, allowed are {MAX_BYTES}",
            hint="keep data and long scripts in files of their own",
        )
    return plain.removeprefix("\ufeff")


def _json(plain: str, name: str) -> object:
    """Measured by the fast reader, then read by the one that sees a key given twice."""
    # Keys given twice do not show in the result: their quotation marks do in the text.
    marks = plain.count('"') - plain.count('\\"')
    if not _is_small(orjson.loads(plain)) or marks > 4 * MAX_NODES:
        raise _too_much(name)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise SpecError(f"{name}: field {reprlib.repr(twice)} is given twice", hint="keep one")
        return found

    return json.loads(plain, object_pairs_hook=unique)


def _is_small(value: object) -> bool:
    level = [value]
    nodes = 0
    for _ in range(MAX_DEPTH + 1):
        nodes += len(level)
        if nodes > MAX_NODES or not level:
            break
        level = [inner for outer in level for inner in _inside(outer)]
    return nodes <= MAX_NODES and not level


def _inside(value: object) -> Iterable[object]:
    """The first values inside, as many as matter."""
    if isinstance(value, dict):
        return islice(value.values(), MAX_NODES + 1)
    return value[: MAX_NODES + 1] if isinstance(value, list) else ()


class _Builder:
    """YAML events one by one, so that a bound is met before anything large is built."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes = 0
        self.lines: dict[Path, int] = {}
        self.events: Iterator[yaml.Event] = iter(())

    def document(self, text: str) -> Document:
        self.events = yaml.parse(text, Loader=_LOADER)
        try:
            value = self._whole()
        except yaml.MarkedYAMLError as error:
            raise self._not_yaml(error) from None
        except yaml.YAMLError:
            raise SpecError(
                f"{self.name}: holds a character that YAML does not allow",
                hint="remove control characters",
            ) from None
        return Document(value, self.lines)

    def _whole(self) -> object:
        next(self.events)  # the stream begins
        if isinstance(next(self.events), yaml.StreamEndEvent):
            return None
        value = self._value(next(self.events), ())
        next(self.events)  # the document ends
        if not isinstance(next(self.events), yaml.StreamEndEvent):
            raise SpecError(
                f"{self.name}: holds more than one document", hint="put each job in its own file"
            )
        return value

    def _value(self, event: yaml.Event, path: Path) -> object:
        self._bound(event, path)
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event) if event.implicit[0] else event.value
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path)
        return self._mapping(path)

    def _sequence(self, path: Path) -> list[object]:
        found: list[object] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            found.append(self._value(event, (*path, len(found))))
        return found

    def _mapping(self, path: Path) -> dict[str, object]:
        found: dict[str, object] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            self._bound(event, path)
            if not isinstance(event, yaml.ScalarEvent):
                raise self._refused(event, "a field's name is not plain text", "write name: value")
            key = event.value
            if key in found:
                raise self._refused(event, f"field {reprlib.repr(key)} is given twice", "keep one")
            self.lines[(*path, key)] = _line(event)
            found[key] = self._value(next(self.events), (*path, key))
        return found

    def _bound(self, event: yaml.Event, path: Path) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES or len(path) > MAX_DEPTH:
            raise _too_much(self.name)
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:  # type: ignore[attr-defined]
            raise self._refused(event, "anchors and aliases are not read", "write the value out")
        if event.tag not in (None, "!", _STRING_TAG):  # type: ignore[attr-defined]
            raise self._refused(event, "tags are not read", "write the plain value")

    def _refused(self, event: yaml.Event, what: str, hint: str) -> SpecError:
        return SpecError(f"{self.name} line {_line(event)}: {what}", hint=hint)

    def _not_yaml(self, error: yaml.MarkedYAMLError) -> SpecError:
        where = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        return SpecError(
            f"{self.name}{where}: is not YAML: {error.problem or error.context}",
            hint="check the indentation and the quotes there",
        )


def _scalar(event: yaml.ScalarEvent) -> object:
    text: str = event.value
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _too_much(name: str) -> SpecError:
    return SpecError(
        f"{name}: holds more than {MAX_NODES} values, or is nested deeper than {MAX_DEPTH}",
        hint="`weft spec explain` lists what a job file can hold",
    )


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0
