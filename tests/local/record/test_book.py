"""The book is what is on disk, in the order in which it was written."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.local.builders import an_entry
from tests.waiting import until_async
from weft.local.record.book import Book, Remark
from weft.local.record.entry import Entry, Happening
from weft.local.record.store import Store
from weft.model.state import State

SUBMITTED = Happening(1.0, "Submitted")


def in_a_book(tmp_path: Path, play: Callable[[Book, Store], Any]) -> list[Entry]:
    """Play with one; gives whom it told of, change by change."""
    told: list[Entry] = []

    async def scene() -> None:
        store = Store.at(tmp_path / "db")
        book = Book(store, told.append)
        await play(book, store)
        assert list(book) == store.active()
        await book.close()
        store.close()

    asyncio.run(scene())
    return told


def test_a_change_is_on_disk_before_it_is_in_the_book(tmp_path: Path) -> None:
    async def play(book: Book, store: Store) -> None:
        entry = await book.add(an_entry(), SUBMITTED)
        changing = asyncio.create_task(book.change(entry.uid, message="so"))
        await changing
        found = store.get(entry.uid)
        assert found is not None
        assert found.message == "so"
        assert book.named("alice/job") == found

    told = in_a_book(tmp_path, play)
    assert [entry.version for entry in told] == [1, 2]


def test_whoever_leaves_does_not_take_the_change_along(tmp_path: Path) -> None:
    async def play(book: Book, store: Store) -> None:
        adding = asyncio.create_task(book.add(an_entry(), SUBMITTED))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding
        await until_async(lambda: len(book), "the job in the book")

    assert len(in_a_book(tmp_path, play)) == 1


def test_a_remark_yields_to_what_was_begun_before_it(tmp_path: Path) -> None:
    """An end that is being recorded is not overwritten by an older look at the progress."""

    async def play(book: Book, store: Store) -> None:
        entry = await book.add(an_entry(), SUBMITTED)
        ending = asyncio.create_task(book.change(entry.uid, message="the end"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await book.remark([Remark(entry, {"message": "half way"}, (SUBMITTED,))])
        await ending
        found = store.get(entry.uid)
        assert found is not None
        assert found.message == "the end"
        assert len(store.history(entry.uid)) == 1
        await book.remark([Remark(found, {"message": "noted"})])
        later = book.get(entry.uid)
        assert later is not None
        assert later.message == "noted"

    in_a_book(tmp_path, play)


def test_what_is_over_is_known_to_the_store_alone(tmp_path: Path) -> None:
    async def play(book: Book, store: Store) -> None:
        entry = await book.add(an_entry(), SUBMITTED)
        await book.change(entry.uid, state=State.FAILED)
        book.forget(entry.uid)
        assert book.named("alice/job") is None
        changed = await book.change(entry.uid, cancelled=True)
        assert changed.cancelled
        assert book.get(entry.uid) is None
        again = await book.add(an_entry(uid="second"), SUBMITTED)
        assert book.named("alice/job") == again

    in_a_book(tmp_path, play)
