"""A term begins with what is on record, and the order in which it is told matters."""

import asyncio
import os
from pathlib import Path

from tests.local.builders import a_machine, a_started
from weft.brain.brain import Settings
from weft.brain.journal import Journal
from weft.local.agents.launch import Launcher
from weft.local.folders import Folders
from weft.local.record.entry import End, Entry, Happening, Owner
from weft.local.record.store import Store
from weft.local.term import Term, TermSettings
from weft.model.ids import JobId
from weft.model.state import State

ME = Owner("me", os.getuid(), os.getgid())
SUBMITTED = Happening(1.0, "Submitted")


def begun(folder: Path, *entries: Entry) -> dict[str, tuple[State, int]]:
    """What a fresh brain believes when all that is on record has been told: state and failures."""
    folders = Folders(folder)
    folders.open(for_all=False)
    store = Store.at(folders.store)
    for entry in entries:
        folders.make_job(entry.uid, entry.owner)
        store.add(entry, SUBMITTED)

    async def scene() -> dict[str, tuple[State, int]]:
        term = Term(
            store,
            Launcher(folders, a_machine(slots=2), "test"),
            TermSettings(recipe="maxmin", brain=Settings()),
            open_journal=lambda *_: Journal(),
            told=lambda: None,
        )
        term._begin()
        state = term.brain.state
        slots = {entry.name: state.slot_of[JobId(entry.id)] for entry in entries}
        found = {
            name: (state.state_of(slot), int(state.jobs.failures[slot]))
            for name, slot in slots.items()
        }
        await term._end()
        return found

    try:
        return asyncio.run(scene())
    finally:
        store.close()


def test_what_is_on_record_is_believed(tmp_path: Path) -> None:
    running = a_started(State.RUNNING, 0, uid="a", name="runs", owner=ME)
    waiting = a_started(State.QUEUED, uid="b", name="waits", owner=ME, seats=())
    stopping = a_started(State.STOPPING, 1, uid="c", name="stops", owner=ME)
    assert begun(tmp_path, running, waiting, stopping) == {
        "runs": (State.RUNNING, 0),
        "waits": (State.QUEUED, 0),
        "stops": (State.STOPPING, 0),
    }


def test_whoever_took_over_the_devices_of_one_that_has_ended_keeps_them(tmp_path: Path) -> None:
    """The daemon died between the start of the next and the last word on the one before."""
    ended = a_started(
        State.RUNNING,
        0,
        1,
        uid="a",
        name="ended",
        owner=ME,
        submitted_at=2.0,
        end=End("user error", 1, "it failed"),
    )
    heir = a_started(State.RUNNING, 0, 1, uid="b", name="heir", owner=ME, submitted_at=1.0)
    found = begun(tmp_path, ended, heir)
    assert found == {"ended": (State.QUEUED, 1), "heir": (State.RUNNING, 0)}


def test_a_resize_under_way_holds_both_of_its_sides(tmp_path: Path) -> None:
    growing = a_started(
        State.RUNNING,
        0,
        uid="a",
        name="grows",
        owner=ME,
        target=a_started(State.RUNNING, 0, 1).seats,
        target_serial=1,
    )
    waiting = a_started(State.QUEUED, uid="b", name="waits", owner=ME, seats=())
    found = begun(tmp_path, growing, waiting)
    assert found == {"grows": (State.RUNNING, 0), "waits": (State.QUEUED, 0)}
