"""A journal on disk: a header line, then one line per event, plain or gzipped.

The header holds what a brain needs beyond its events: recipe, settings, queues. It does not count
into the journal's hash, which speaks of events and instructions alone. A process that dies while it
writes leaves a last line cut short; that is a fact to report, not a reason to refuse the rest.
"""

import gzip
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedWriter
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

import orjson

from weft.brain import event as events
from weft.brain.brain import Brain, Settings
from weft.brain.event import Event
from weft.brain.journal import FORMAT, Journal
from weft.lab.journals.old_journals import present_event, present_instruction
from weft.model.errors import JournalError
from weft.model.queue import Queue, QueueTree
from weft.spec.recipe import make_recipe

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

QUICK_COMPRESSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a fresh brain is made from."""

    weft: str
    recipe: str
    seed: int
    queues: tuple[Queue, ...]
    settings: Settings = field(default_factory=Settings)

    def brain(self) -> Brain:
        return Brain(make_recipe(self.recipe), tree=QueueTree(self.queues), settings=self.settings)


@dataclass(frozen=True, slots=True)
class Entry:
    """One record as it stands: its number, counted from 1 after the header, and its bytes."""

    number: int
    line: bytes
    event: Event
    instructions: list[Any]


class JournalFile:
    """Reads a journal in one pass; `torn` is known when the pass is over."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = False

    def header(self) -> Header:
        try:
            found = orjson.loads(next(self._lines(), b""))
        except orjson.JSONDecodeError:
            found = None
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise JournalError(
                f"{self.path} does not begin as a journal of format {FORMAT}",
                hint="name the journal.jsonl.gz of a run folder",
            )
        del found["format"]
        return _validated(Header, found, f"{self.path}: the header")

    def entries(self) -> Iterator[Entry]:
        """All whole records in order."""
        for number, line in enumerate(self._lines()):
            if number:
                yield decode(number, line)

    def _lines(self) -> Iterator[bytes]:
        """Whole lines; a last one that was cut short is left out and remembered."""
        self.torn = False
        with _opened(self.path) as stream:
            try:
                for line in stream:
                    if not line.endswith(b"\n"):
                        self.torn = True
                        return
                    yield line
            except (EOFError, gzip.BadGzipFile, zlib.error):
                self.torn = True


def decode(number: int, line: bytes) -> Entry:
    """The event of a line, as the brain was given it."""
    where = f"record {number}"
    found = _loaded(line, where)
    if not isinstance(found, list) or len(found) != len(("event", "fields", "instructions")):
        raise JournalError(f"{where} is no record", hint="restore the journal from a copy")
    name, fields, instructions = found
    kind = EVENTS.get(name)
    if kind is None:
        raise JournalError(f"{where}: no event '{name}'", hint="replay with the Weft that wrote it")
    event: Event = _validated(kind, present_event(name, fields), where)
    return Entry(number, line, event, [present_instruction(said) for said in instructions])


@contextmanager
def writing(path: Path, header: Header) -> Iterator[Journal]:
    """A journal that is written to `path` as it grows; the same run gives the same bytes."""
    with path.open("wb") as raw, _packed(path, raw) as stream:
        stream.write(orjson.dumps({"format": FORMAT} | _plain(header)) + b"\n")
        yield Journal(stream)


def _packed(path: Path, raw: BufferedWriter) -> BinaryIO:
    if path.suffix != ".gz":
        return raw
    packed = gzip.GzipFile(
        filename="", fileobj=raw, mode="wb", mtime=0, compresslevel=QUICK_COMPRESSION
    )
    return cast(BinaryIO, packed)


def _plain(header: Header) -> dict[str, object]:
    found: dict[str, object] = orjson.loads(orjson.dumps(header))
    return found


def _opened(path: Path) -> BinaryIO:
    try:
        return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")
    except OSError as error:
        raise JournalError(f"{path} cannot be read: {error}", hint="check the path") from error


def _loaded(line: bytes, where: str) -> object:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise JournalError(
            f"{where} is not JSON: {error}", hint="restore the journal from a copy"
        ) from error


def _validated(kind: type[T], fields: Mapping[str, object], where: str) -> T:
    from pydantic import ValidationError

    try:
        made: T = _adapter(kind).validate_python(fields)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise JournalError(
            f"{where}: {kind.__name__}.{field}: {first['msg']}",
            hint="replay with the Weft that wrote it",
        ) from error
    return made


def _adapter(kind: type) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    if kind.__name__ not in _adapters:
        _adapters[kind.__name__] = TypeAdapter(kind)
    return _adapters[kind.__name__]


_adapters: "dict[str, TypeAdapter[Any]]" = {}
EVENTS: dict[str, type] = {kind.__name__: kind for kind in events.Event.__args__}
