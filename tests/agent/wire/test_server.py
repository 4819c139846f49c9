"""At the agent's door: who knows the token is heard, everything else is dropped and counted."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.waiting import HANG_SECONDS
from weft.agent.messages import (
    MOST_LINE_BYTES,
    Answer,
    Ask,
    Committed,
    Envelope,
    Halt,
    Hello,
    Message,
    Offer,
    Over,
    Status,
    decode,
    encode,
)
from weft.agent.wire.control_store import ControlStore
from weft.agent.wire.server import Server
from weft.model.errors import WorldError

TOKEN = "secret"
HELLO = Hello("worker", 3, 1, TOKEN)


class Ears:
    """What was heard behind the door."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, Message]] = []
        self.silent: list[int] = []
        self.told: list[tuple[int, Message]] = []
        self.lost: list[int] = []

    def worker_said(self, worker: int, message: Message) -> None:
        self.heard.append((worker, message))

    def worker_silent(self, worker: int) -> None:
        self.silent.append(worker)

    def driver_asked(self, message: Message) -> Answer:
        return Answer(ok=True, body={"asked": type(message).__name__})

    def follower_said(self, seat: int, message: Message) -> None:
        self.told.append((seat, message))

    def follower_silent(self, seat: int) -> None:
        self.lost.append(seat)


class Guest:
    """One connection to the door."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.seq = 0

    def say(self, message: Message, *, job: str = "job", start: int = 2, seq: int = 0) -> None:
        self.seq = seq or self.seq + 1
        self.writer.write(encode(Envelope(job, start, self.seq, message)))

    async def hear(self) -> Message | None:
        line = await asyncio.wait_for(self.reader.readline(), HANG_SECONDS)
        return decode(line, strict=False).message if line else None

    async def shown_out(self) -> None:
        """The door closes this connection without another word."""
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(self.reader.read(), HANG_SECONDS) == b""


Scene = Callable[[Server, Ears, Callable[[], Awaitable[Guest]]], Awaitable[None]]


def play(path: Path, scene: Scene) -> Server:
    """A server with its ears, and a way to knock at its door."""

    async def all_of_it() -> Server:
        ears = Ears()
        server = Server("job", 2, TOKEN, ControlStore(), ears)
        await server.open(path / "agent.sock")
        async with _guests(path / "agent.sock") as knock:
            await scene(server, ears, knock)
        await server.close()
        return server

    return asyncio.run(all_of_it())


@contextlib.asynccontextmanager
async def _guests(path: Path) -> AsyncIterator[Callable[[], Awaitable[Guest]]]:
    inside: list[Guest] = []

    async def knock() -> Guest:
        guest = Guest(*await asyncio.open_unix_connection(path))
        inside.append(guest)
        return guest

    yield knock
    for guest in inside:
        guest.writer.close()
        with contextlib.suppress(ConnectionError):
            await guest.writer.wait_closed()


async def until(condition: Callable[[], object]) -> None:
    """Let the loop run until it holds."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


def test_a_worker_is_heard_in_order_and_answered(tmp_path: Path) -> None:
    async def scene(server: Server, ears: Ears, knock: Callable[[], Awaitable[Guest]]) -> None:
        guest = await knock()
        guest.say(HELLO)
        guest.say(Committed(1, 0))
        await until(lambda: len(ears.heard) == 2)
        assert ears.heard == [(3, HELLO), (3, Committed(1, 0))]
        server.send(3, Halt(1))
        server.send(4, Halt(1))
        assert await guest.hear() == Halt(1)
        guest.writer.close()
        await until(lambda: ears.silent)
        assert ears.silent == [3]
        server.send(3, Halt(2))

    assert not play(tmp_path, scene).dropped


def test_a_worker_that_was_killed_is_gone_and_not_counted_as_noise(tmp_path: Path) -> None:
    async def scene(server: Server, ears: Ears, knock: Callable[[], Awaitable[Guest]]) -> None:
        guest = await knock()
        guest.say(HELLO)
        await until(lambda: ears.heard)
        server.send(3, Halt(1))
        guest.writer.transport.abort()
        await until(lambda: ears.silent)

    assert not play(tmp_path, scene).dropped


def test_a_driver_and_a_store_are_served(tmp_path: Path) -> None:
    async def scene(server: Server, ears: Ears, knock: Callable[[], Awaitable[Guest]]) -> None:
        driver = await knock()
        driver.say(Hello("driver", -1, 1, TOKEN))
        driver.say(Status())
        assert await driver.hear() == Answer(ok=True, body={"asked": "Status"})
        store = await knock()
        store.say(Hello("store", 3, 1, TOKEN))
        store.say(Ask("set", "a", "AA=="))
        assert await store.hear() == Answer(ok=True)
        store.say(Ask("get", "a"))
        assert await store.hear() == Answer(ok=True, value="AA==")
        assert not ears.heard

    assert not play(tmp_path, scene).dropped


def test_a_follower_is_heard_ordered_and_missed(tmp_path: Path) -> None:
    async def scene(server: Server, ears: Ears, knock: Callable[[], Awaitable[Guest]]) -> None:
        follower = await knock()
        follower.say(Hello("outpost", 4, 1, TOKEN))
        follower.say(Offer(2, "10.0.0.4"))
        await until(lambda: ears.told)
        assert ears.told == [(4, Offer(2, "10.0.0.4"))]
        server.order(4, Over(143, "enough"))
        server.order(5, Over(75, "nobody is there"))
        assert await follower.hear() == Over(143, "enough")
        follower.writer.transport.abort()
        await until(lambda: ears.lost)
        assert ears.lost == [4]
        assert not ears.heard

    assert not play(tmp_path, scene).dropped


def test_a_follower_that_comes_again_has_been_lost(tmp_path: Path) -> None:
    async def scene(server: Server, ears: Ears, knock: Callable[[], Awaitable[Guest]]) -> None:
        old, new = await knock(), await knock()
        for guest in (old, new):
            guest.say(Hello("outpost", 4, 1, TOKEN))
            guest.say(Offer(1, "10.0.0.4"))
            await until(lambda: ears.told)
            ears.told.clear()
        await old.shown_out()
        assert ears.lost == [4]
        server.dismiss(4)
        await new.shown_out()
        assert ears.lost == [4], "one that was sent home is not lost"

    play(tmp_path, scene)


def test_a_worker_that_is_cut_off_is_not_heard_and_has_no_store(tmp_path: Path) -> None:
    async def scene(server: Server, ears: Ears, knock: Callable[[], Awaitable[Guest]]) -> None:
        worker, store = await knock(), await knock()
        worker.say(HELLO)
        store.say(Hello("store", HELLO.worker, 1, TOKEN))
        store.say(Ask("set", "a", "AA=="))
        assert await store.hear() == Answer(ok=True)
        await until(lambda: ears.heard)
        assert server.hears(HELLO.worker)
        server.cut(HELLO.worker)
        assert not server.hears(HELLO.worker)
        worker.say(Committed(1, 0))
        await worker.shown_out()
        await store.shown_out()
        assert ears.heard == [(3, HELLO)]
        assert not ears.silent

    play(tmp_path, scene)


@pytest.mark.parametrize("role", ["worker", "store", "driver", "outpost"])
@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x", "sécret", TOKEN[:-1]])
def test_a_stranger_is_shown_out(tmp_path: Path, role: str, token: str) -> None:
    async def scene(server: Server, ears: Ears, knock: Callable[[], Awaitable[Guest]]) -> None:
        guest = await knock()
        guest.say(Hello(role, 3, 1, token))
        guest.say(Status())
        await guest.shown_out()
        assert not ears.heard

    assert play(tmp_path, scene).dropped == {"token": 1}


@pytest.mark.parametrize(
    "first",
    [Committed(1, 0), Status(), Ask("set", "a", "AA=="), Hello("king", 3, 1, TOKEN)],
)
def test_nothing_is_taken_from_who_has_not_introduced_itself(
    tmp_path: Path, first: Message
) -> None:
    async def scene(server: Server, ears: Ears, knock: Callable[[], Awaitable[Guest]]) -> None:
        guest = await knock()
        guest.say(first)
        await guest.shown_out()
        assert not ears.heard
        assert not (await server.store.answer(Ask("check", "a"))).ok

    assert sum(play(tmp_path, scene).dropped.values()) == 1


@pytest.mark.parametrize(
    ("changed", "why"),
    [({"job": "other"}, "job"), ({"start": 1}, "incarnation"), ({"start": 3}, "incarnation")],
)
def test_another_job_or_start_is_dropped(
    tmp_path: Path, changed: dict[str, str | int], why: str
) -> None:
    async def scene(server: Server, ears: Ears, knock: Callable[[], Awaitable[Guest]]) -> None:
        guest = await knock()
        guest.say(HELLO)
        guest.say(Committed(1, 0), **changed)  # type: ignore[arg-type]
        guest.say(Committed(1, 1))
        await until(lambda: len(ears.heard) == 2)
        assert ears.heard[1] == (3, Committed(1, 1))

    assert play(tmp_path, scene).dropped == {why: 1}


def test_what_is_said_twice_is_heard_once(tmp_path: Path) -> None:
    async def scene(server: Server, ears: Ears, knock: Callable[[], Awaitable[Guest]]) -> None:
        guest = await knock()
        guest.say(HELLO)
        guest.say(Committed(1, 5), seq=5)
        guest.say(Committed(1, 5), seq=5)
        guest.say(Committed(1, 4), seq=4)
        guest.say(Committed(1, 6), seq=6)
        await until(lambda: len(ears.heard) == 3)
        assert [message for _, message in ears.heard[1:]] == [Committed(1, 5), Committed(1, 6)]

    assert play(tmp_path, scene).dropped == {"seq": 2}


@pytest.mark.parametrize(
    "noise",
    [
        b"\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x80\x04\x95pickle.\n",
        b'{"type":"Committed"}\n',
        json.dumps({"job": "job", "incarnation": 2, "seq": 9, "type": "Eval", "body": {}}).encode()
        + b"\n",
        b"x" * (MOST_LINE_BYTES + 1) + b"\n",
    ],
    ids=["empty", "http", "pickle", "half", "unknown", "oversize"],
)
@pytest.mark.parametrize("introduced", [True, False])
def test_noise_closes_the_connection_and_nothing_else(
    tmp_path: Path, noise: bytes, introduced: bool
) -> None:
    async def scene(server: Server, ears: Ears, knock: Callable[[], Awaitable[Guest]]) -> None:
        good = await knock()
        good.say(Hello("worker", 7, 1, TOKEN))
        guest = await knock()
        if introduced:
            guest.say(HELLO)
        guest.writer.write(noise)
        await guest.shown_out()
        good.say(Committed(1, 0))
        await until(lambda: (7, Committed(1, 0)) in ears.heard)
        assert ears.silent == ([3] if introduced else [])

    assert sum(play(tmp_path, scene).dropped.values()) == 1


def test_an_unknown_field_is_refused(tmp_path: Path) -> None:
    async def scene(server: Server, ears: Ears, knock: Callable[[], Awaitable[Guest]]) -> None:
        guest = await knock()
        guest.say(HELLO)
        raw = json.loads(encode(Envelope("job", 2, 2, Committed(1, 0))))
        raw["body"]["sudo"] = True
        guest.writer.write(json.dumps(raw).encode() + b"\n")
        await guest.shown_out()
        assert ears.heard == [(3, HELLO)]

    assert play(tmp_path, scene).dropped == {"ProtocolError": 1}


def test_who_says_nothing_is_shown_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.agent.wire.server.HELLO_SECONDS", 0.01)

    async def scene(server: Server, ears: Ears, knock: Callable[[], Awaitable[Guest]]) -> None:
        await (await knock()).shown_out()

    assert play(tmp_path, scene).dropped == {"TimeoutError": 1}


def test_a_worker_that_connects_again_takes_the_place_of_its_old_connection(
    tmp_path: Path,
) -> None:
    async def scene(server: Server, ears: Ears, knock: Callable[[], Awaitable[Guest]]) -> None:
        old, new = await knock(), await knock()
        old.say(HELLO)
        await until(lambda: len(ears.heard) == 1)
        new.say(HELLO)
        await until(lambda: len(ears.heard) == 2)
        old.writer.close()
        server.send(3, Halt(1))
        assert await new.hear() == Halt(1)
        assert not ears.silent

    play(tmp_path, scene)


def test_a_path_that_is_too_long_is_told(tmp_path: Path) -> None:
    async def scene() -> None:
        server = Server("job", 2, TOKEN, ControlStore(), Ears())
        await server.open(tmp_path / ("x" * 120) / "agent.sock")

    with pytest.raises(WorldError, match="cannot listen"):
        asyncio.run(scene())
