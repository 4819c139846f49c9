"""The control store: what torch's groups ask of it while they are built."""

import asyncio
from base64 import b64decode, b64encode

from weft.agent.messages import Answer, Ask
from weft.agent.store import MOST_KEYS, ControlStore, epoch_prefix


def coded(text: str) -> str:
    return b64encode(text.encode()).decode()


def answered(store: ControlStore, *asks: Ask) -> list[Answer]:
    async def all_of_them() -> list[Answer]:
        return [await store.answer(ask) for ask in asks]

    return asyncio.run(all_of_them())


def test_what_was_set_is_found() -> None:
    store = ControlStore()
    _, found, missing = answered(
        store, Ask("set", "a", value=coded("x")), Ask("get", "a"), Ask("get", "b")
    )
    assert b64decode(found.value) == b"x"
    assert not missing.ok


def test_counting_checking_deleting() -> None:
    store = ControlStore()
    answers = answered(
        store,
        Ask("add", "n", amount=2),
        Ask("add", "n", amount=3),
        Ask("check", "n"),
        Ask("count"),
        Ask("delete", "n"),
        Ask("check", "n"),
        Ask("dance", "n"),
    )
    assert [a.amount for a in answers[:2]] == [2, 5]
    assert [a.ok for a in answers[2:]] == [True, True, True, False, False]
    assert answers[3].amount == 1


def test_compare_and_set() -> None:
    store = ControlStore()
    first, second = answered(
        store,
        Ask("compare_set", "k", value=coded("one"), expected=coded("")),
        Ask("compare_set", "k", value=coded("two"), expected=coded("other")),
    )
    assert [b64decode(a.value) for a in (first, second)] == [b"one", b"one"]


def test_who_waits_is_woken_by_the_key() -> None:
    async def story() -> Answer:
        store = ControlStore()
        waiting = asyncio.create_task(store.answer(Ask("get", "late", wait_seconds=60)))
        await asyncio.sleep(0)
        await store.answer(Ask("set", "late", value=coded("here")))
        return await waiting

    assert b64decode(asyncio.run(story()).value) == b"here"


def test_giving_an_epoch_up_ends_all_waiting_for_it_and_forgets_its_keys() -> None:
    async def story() -> list[Answer]:
        store = ControlStore()
        key = epoch_prefix(7) + "address"
        await store.answer(Ask("set", epoch_prefix(7) + "old", value=coded("x")))
        waiting = asyncio.create_task(store.answer(Ask("get", key, wait_seconds=60)))
        await asyncio.sleep(0)
        store.give_up(epoch_prefix(7))
        later = await store.answer(Ask("get", key, wait_seconds=60))
        return [await waiting, later, await store.answer(Ask("check", epoch_prefix(7) + "old"))]

    assert [answer.ok for answer in asyncio.run(story())] == [False, False, False]


def test_epoch_one_is_not_epoch_ten() -> None:
    store = ControlStore()
    answered(store, Ask("set", epoch_prefix(10) + "k", value=coded("x")))
    store.give_up(epoch_prefix(1))
    assert answered(store, Ask("check", epoch_prefix(10) + "k"))[0].ok


def test_keys_are_bounded() -> None:
    store = ControlStore()
    store._values = {str(number): b"" for number in range(MOST_KEYS)}
    more, again = answered(store, Ask("set", "more"), Ask("set", "5", value=coded("x")))
    assert (more.ok, again.ok) == (False, True)
