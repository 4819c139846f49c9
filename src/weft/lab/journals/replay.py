"""Replay: the events of a journal into a fresh brain, whose instructions must be the same bytes.

This is the test of the first rule: a decision depends on nothing but the events. It holds across
machines, hash seeds and processes; the first record for which it does not is named.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson

from weft.brain.instruction import Instruction
from weft.brain.journal import Journal, encode
from weft.lab.journals.journal_file import Entry, JournalFile
from weft.model.errors import JournalError

SCHEMA = "weft-replay/1"
EVERY = 1024
SHOWN_LETTERS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A journal that replays. `torn`: its last line was cut short and is not part of this."""

    schema: str = SCHEMA
    journal: str
    recipe: str
    records: int
    journal_hash: str
    torn: bool


def replay(path: Path, *, progress: Callable[[int], None] | None = None) -> Replayed:
    """Every record again, up to the first that differs."""
    file = JournalFile(path)
    header = file.header()
    brain = header.brain()
    again = Journal()
    for entry in file.entries():
        instructions = brain.handle(entry.event)
        again.record(entry.event, instructions)
        if entry.line != encode(entry.event, instructions):
            _demand_same(entry, instructions)
        if progress is not None and entry.number % EVERY == 0:
            progress(entry.number)
    return Replayed(
        journal=str(path),
        recipe=header.recipe,
        records=again.records,
        journal_hash=again.digest,
        torn=file.torn,
    )


def check_hash(replayed: Replayed, promised: str) -> None:
    """A journal that ends early at a line's end replays well; only its hash tells."""
    if not replayed.torn and replayed.journal_hash != promised:
        raise JournalError(
            f"{replayed.journal} has hash {replayed.journal_hash}, its manifest says {promised}",
            hint="records are missing or were changed: restore the journal from a copy",
        )


def _demand_same(entry: Entry, instructions: list[Instruction]) -> None:
    """The event may be written otherwise (`1` for `1.0`); what it led to may not."""
    written = orjson.dumps(entry.instructions)
    given = orjson.dumps([(instruction.verb, instruction) for instruction in instructions])
    if written != given:
        raise JournalError(
            f"record {entry.number} ({type(entry.event).__name__} at {entry.event.at:g} s) "
            f"replays to something else\n  journal: {_short(written)}\n  replay:  {_short(given)}",
            hint="another version of Weft or of the recipe wrote it, or a decision is not pure",
        )


def _short(text: bytes) -> str:
    shown = text.decode()
    return shown if len(shown) <= SHOWN_LETTERS else shown[:SHOWN_LETTERS] + " …"
