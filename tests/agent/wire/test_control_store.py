"""The control store: keys of an epoch arrive, and nobody waits for those of one given up."""

import asyncio
from base64 import b64decode, b64encode

import pytest

from weft.agent.messages import Answer, Ask
from weft.agent.wire import control_store as store_module
from weft.agent.wire.control_store import ControlStore, epoch_prefix


def text(value: bytes) -> str:
    return b64encode(value).decode()


async def say(store: ControlStore, op: str, key: str = "", value: bytes = b"") -> Answer:
    return await store.answer(Ask(op, key, text(value)))


def test_what_was_set_is_found() -> None:
    async def scene() -> None:
        store = ControlStore()
        assert (await say(store, "set", "a", b"\x00\xff")).ok
        answer = await say(store, "get", "a")
        assert answer.ok
        assert b64decode(answer.value) == b"\x00\xff"
        assert (await say(store, "check", "a")).ok
        assert (await say(store, "count")).amount == 1
        assert (await say(store, "delete", "a")).ok
        assert not (await say(store, "delete", "a")).ok
        assert not (await say(store, "check", "a")).ok
        assert not (await say(store, "get", "a")).ok

    asyncio.run(scene())


def test_counting_and_comparing() -> None:
    async def scene() -> None:
        store = ControlStore()
        assert (await store.answer(Ask("add", "n", amount=3))).amount == 3
        assert (await store.answer(Ask("add", "n", amount=-1))).amount == 2
        taken = await store.answer(Ask("compare_set", "who", text(b"me"), expected=text(b"")))
        assert b64decode(taken.value) == b"me"
        refused = await store.answer(Ask("compare_set", "who", text(b"you"), expected=text(b"")))
        assert b64decode(refused.value) == b"me"

    asyncio.run(scene())


@pytest.mark.parametrize(
    "ask",
    [
        Ask("explode", "a"),
        Ask("set", "a", value="no base64!"),
        Ask("compare_set", "a", value="", expected="="),
        Ask("get", "a", wait_seconds=-1.0),
    ],
)
def test_what_makes_no_sense_is_answered_with_no(ask: Ask) -> None:
    async def scene() -> Answer:
        return await ControlStore().answer(ask)

    assert not asyncio.run(scene()).ok


def test_a_word_is_not_counted() -> None:
    async def scene() -> None:
        store = ControlStore()
        await say(store, "set", "n", b"word")
        assert not (await store.answer(Ask("add", "n", amount=1))).ok

    asyncio.run(scene())


def test_who_waits_is_woken_by_the_key() -> None:
    async def scene() -> None:
        store = ControlStore()
        first, second = (
            asyncio.create_task(store.answer(Ask("get", "late", wait_seconds=60.0)))
            for _ in range(2)
        )
        await asyncio.sleep(0)
        await say(store, "set", "late", b"here")
        assert b64decode((await first).value) == b"here"
        assert b64decode((await second).value) == b"here"

    asyncio.run(scene())


def test_nobody_waits_for_an_epoch_that_was_given_up() -> None:
    async def scene() -> None:
        store = ControlStore()
        key = epoch_prefix(7) + "votes/0"
        await say(store, "set", key, b"here")
        missing = asyncio.create_task(
            store.answer(Ask("get", epoch_prefix(7) + "votes/1", wait_seconds=60.0))
        )
        other = asyncio.create_task(
            store.answer(Ask("get", epoch_prefix(70) + "votes/1", wait_seconds=60.0))
        )
        await asyncio.sleep(0)
        store.give_up(epoch_prefix(7))
        assert not (await missing).ok
        assert not (await say(store, "get", key)).ok
        late = Ask("get", epoch_prefix(7) + "votes/2", wait_seconds=60.0)
        assert not (await store.answer(late)).ok
        assert not other.done(), "epoch 70 is not epoch 7"
        store.give_up(epoch_prefix(70))
        await other

    asyncio.run(scene())


def test_what_comes_late_to_an_epoch_given_up_is_not_kept() -> None:
    async def scene() -> None:
        store = ControlStore()
        store.give_up(epoch_prefix(7))
        assert not (await say(store, "set", epoch_prefix(7) + "votes/0", b"here")).ok
        assert not (await store.answer(Ask("add", epoch_prefix(7) + "n", amount=1))).ok
        assert (await say(store, "count")).amount == 0

    asyncio.run(scene())


def test_a_wait_that_lapses_leaves_nothing_behind() -> None:
    async def scene() -> None:
        store = ControlStore()
        answer = await store.answer(Ask("get", "never", wait_seconds=0.001))
        assert not answer.ok
        assert not store._waiting

    asyncio.run(scene())


def test_the_store_does_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MOST_KEYS", 2)

    async def scene() -> None:
        store = ControlStore()
        assert (await say(store, "set", "a")).ok
        assert (await say(store, "set", "b")).ok
        assert not (await say(store, "set", "c")).ok
        assert not (await store.answer(Ask("add", "d", amount=1))).ok
        assert (await say(store, "set", "a", b"again")).ok

    asyncio.run(scene())
