"""What the executor writes down, action by action."""

import asyncio
import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.failure.test_retry import diagnosis
from tests.local.builders import NOW, a_machine, a_started, an_assignment, an_entry, seats
from weft.failure.classes import FailureClass
from weft.failure.diagnosis import Diagnosis
from weft.failure.interval import Advice
from weft.local.executor import Executor, _how
from weft.local.reconcile.step import Record, RecordTarget, Void
from weft.local.record.book import Book
from weft.local.record.entry import End, Entry, Happening
from weft.local.record.store import Store
from weft.model.capability import Capability
from weft.model.errors import WorldError
from weft.model.ids import JobId, PartyId
from weft.model.state import State

SUBMITTED = Happening(1.0, "Submitted")


class Context:
    """A world that has nothing to say, but who shares whose slots."""

    unfit = ""

    def __init__(self, *company: str) -> None:
        self._company = company

    def look(self, entry: Entry, note: Any) -> Any: ...  # noqa: ANN401
    def deliver(self, step: Any) -> None: ...  # noqa: ANN401
    def past(self, entry: Entry) -> None: ...

    async def unfit_for_gangs(self) -> str:
        return self.unfit

    def saving_advice(self, entry: Entry) -> Advice:
        return Advice(1e8)

    def broke(self, error: Exception) -> None: ...
    def happened(self, entry: Entry, happening: Happening) -> None: ...

    def company(self, entry: Entry) -> tuple[JobId, ...]:
        return tuple(map(JobId, self._company))

    def slots(self) -> tuple[int, ...]:
        return a_machine().slots

    def now(self) -> float:
        return NOW


def perform(  # the others stand beside it on record
    folder: Path,
    action: Any,  # noqa: ANN401
    *entries: Entry,
    company: tuple[str, ...] = (),
    unfit: str = "",
) -> Entry:
    """What the first entry has become."""
    found, *_ = performed(folder, {0: action}, *entries, company=company, unfit=unfit)
    return found


def performed(
    folder: Path,
    actions: dict[int, Any],
    *entries: Entry,
    company: tuple[str, ...] = (),
    unfit: str = "",
) -> list[Entry]:
    """What all of them have become after these actions, all at once, on some of them."""

    async def scene() -> list[Entry]:
        store = Store.at(folder / "db")
        for entry in entries:
            store.add(entry, SUBMITTED)
        book = Book(store, lambda _: None)
        agents: Any = None
        context = Context(*company)
        context.unfit = unfit
        executor = Executor(context, book, agents, a_machine(slots=4))
        await asyncio.gather(
            *(executor._perform(entries[index], action) for index, action in actions.items())
        )
        found = [store.get(entry.uid) for entry in entries]
        await book.close()
        store.close()
        assert None not in found
        return [entry for entry in found if entry is not None]

    return asyncio.run(scene())


def test_a_decision_gets_devices_that_nobody_holds(tmp_path: Path) -> None:
    other = a_started(State.RUNNING, 0, 2, uid="b", name="other")
    entry = perform(tmp_path, Record(1, an_assignment(0, 1)), an_entry(uid="a"), other)
    assert (entry.state, entry.epoch) == (State.STARTING, 1)
    assert entry.devices == {1, 3}


def test_what_an_earlier_start_of_the_program_offered_is_not_that_of_this_one(
    tmp_path: Path,
) -> None:
    before = an_entry(uid="a", epoch=1, offers=(Capability.TENSOR,))
    entry = perform(tmp_path, Record(2, an_assignment(0)), before)
    assert (entry.epoch, entry.offers) == (2, ())


def test_a_decision_for_which_there_is_no_device_is_not_recorded(tmp_path: Path) -> None:
    other = a_started(State.RUNNING, 0, 1, 2, 3, uid="b", name="other")
    entry = perform(tmp_path, Record(1, an_assignment(0)), an_entry(uid="a"), other)
    assert (entry.state, entry.epoch) == (State.QUEUED, 0)


@pytest.mark.parametrize(("slots", "starts"), [((0,), True), ((0, 1), False)])
def test_a_gang_is_not_recorded_on_a_machine_that_is_not_fit_for_one(
    tmp_path: Path, slots: tuple[int, ...], starts: bool
) -> None:
    entry = perform(tmp_path, Record(1, an_assignment(*slots)), an_entry(uid="a"), unfit="pair: no")
    assert (entry.state is State.STARTING) is starts


def joined(*slots: int) -> Record:
    return Record(1, replace(an_assignment(*slots), party=PartyId("alice/lead/1")))


def test_who_joins_others_gets_their_devices_and_the_name_of_the_party(tmp_path: Path) -> None:
    lead = a_started(State.RUNNING, 1, 3, uid="b", name="lead")
    entry = perform(tmp_path, joined(0, 1), an_entry(uid="a"), lead, company=(str(lead.id),))
    assert entry.devices == {1, 3} == lead.devices
    assert (entry.party, entry.party_name) == ("alice/lead/1", "alice/lead/1")
    assert lead.party_name == f"{lead.id}/1"


def test_the_first_of_a_party_takes_what_is_free(tmp_path: Path) -> None:
    """Both were decided at once, and nobody is on record yet: if all waited, all would for ever."""
    lead = an_entry(uid="b", name="lead")
    entry = perform(tmp_path, joined(0), an_entry(uid="a"), lead, company=(str(lead.id),))
    assert entry.state is State.STARTING
    assert entry.devices == {0}


@pytest.mark.parametrize(("together", "slots"), [(True, [{0}, {0}]), (False, [{0}, {1}])])
def test_several_that_are_recorded_at_once(
    tmp_path: Path, together: bool, slots: list[set[int]]
) -> None:
    entries = (an_entry(uid="a", name="a"), an_entry(uid="b", name="b"))
    company = tuple(str(entry.id) for entry in entries) if together else ()
    found = performed(tmp_path, {0: joined(0), 1: joined(0)}, *entries, company=company)
    assert [entry.devices for entry in found] == slots


def test_who_joins_fewer_devices_than_it_needs_is_refused(tmp_path: Path) -> None:
    lead = a_started(State.RUNNING, 1, uid="b", name="lead")
    entry = perform(tmp_path, joined(0, 1), an_entry(uid="a"), lead, company=(str(lead.id),))
    assert entry.state is State.QUEUED


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (None, "user error: it failed"),
        (diagnosis(FailureClass.SERVICE), "service: it failed: the line"),
    ],
)
def test_an_end_is_told_by_what_was_at_fault(found: Diagnosis | None, told: str) -> None:
    assert _how(End("user error", 4, "it failed", diagnosis=found)) == told


def test_a_newer_target_lets_go_of_nothing_that_an_older_one_took(tmp_path: Path) -> None:
    """Workers may have been started for the older one: until it is over all of it is held."""
    growing = a_started(State.RUNNING, 0, target=seats(0, 1), target_serial=1)
    entry = perform(tmp_path, RecordTarget(2, an_assignment(0, 2).placement), growing)
    assert entry.devices == {0, 1, 2}
    assert [seat.number for seat in entry.target] == [0, 2]
    assert (entry.target_serial, entry.top_seat) == (2, 2)


class ShortOf:
    """Agents on a machine that has no more of something."""

    def __init__(self, number: int) -> None:
        self._number = number

    async def void(self, entry: Entry) -> None:
        raise OSError(self._number, os.strerror(self._number))


def _voided(folder: Path, number: int) -> None:
    async def scene() -> None:
        store = Store.at(folder / "db")
        entry = a_started(State.STARTING, 0, uid="a")
        store.add(entry, SUBMITTED)
        book = Book(store, lambda _: None)
        agents: Any = ShortOf(number)
        try:
            await Executor(Context(), book, agents, a_machine())._perform(entry, Void())
        finally:
            await book.close()
            store.close()

    asyncio.run(scene())


def test_a_machine_without_handles_is_asked_again(tmp_path: Path) -> None:
    """A crowd of users can use them up; that is no defect, and ends nobody's term."""
    with pytest.raises(WorldError, match="Too many open files"):
        _voided(tmp_path, errno.EMFILE)


def test_another_error_of_the_machine_is_a_defect(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Input/output"):
        _voided(tmp_path, errno.EIO)
