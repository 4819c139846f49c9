"""The door: nobody without the job's token, nothing of another job, start or time."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from weft.agent.messages import (
    MOST_LINE_BYTES,
    Answer,
    Ask,
    Envelope,
    Hello,
    Message,
    Resize,
    Status,
    Welcome,
    decode,
    encode,
)
from weft.agent.server import Server
from weft.agent.store import ControlStore

TOKEN = "secret"


class Heard:
    """Writes down what came through the door."""

    def __init__(self) -> None:
        self.said: list[tuple[int, Message]] = []
        self.asked: list[Message] = []
        self.silent: list[int] = []

    def worker_said(self, worker: int, message: Message) -> None:
        self.said.append((worker, message))

    def worker_silent(self, worker: int) -> None:
        self.silent.append(worker)

    def driver_asked(self, message: Message) -> Answer:
        self.asked.append(message)
        return Answer(ok=True, body={"width": 3})


class Visitor:
    """A raw connection, to say whatever one likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.seq = 0

    def say(
        self, message: Message, *, job: str = "job", incarnation: int = 2, seq: int = 0
    ) -> None:
        self.seq += 1
        self.raw(encode(Envelope(job, incarnation, seq or self.seq, message)))

    def raw(self, line: bytes) -> None:
        self.writer.write(line)

    async def hears(self) -> Message | None:
        line = await asyncio.wait_for(self.reader.readline(), 5)
        return decode(line, strict=False).message if line else None


Story = Callable[[Visitor, Heard, Server], Awaitable[None]]


def play(folder: Path, story: Story) -> None:
    async def act() -> None:
        heard = Heard()
        server = Server("job", 2, TOKEN, ControlStore(), heard)
        await server.open(folder / "s")
        reader, writer = await asyncio.open_unix_connection(folder / "s", limit=MOST_LINE_BYTES)
        try:
            await story(Visitor(reader, writer), heard, server)
        finally:
            writer.close()
            await server.close()

    asyncio.run(act())


def hello(role: str = "worker", token: str = TOKEN) -> Hello:
    return Hello(role, 4, 1, token)


def test_a_worker_is_heard_and_spoken_to(tmp_path: Path) -> None:
    async def story(visitor: Visitor, heard: Heard, server: Server) -> None:
        visitor.say(hello())
        visitor.say(Resize(3))
        while len(heard.said) < 2:
            await asyncio.sleep(0)
        server.send(4, Welcome(True, 2, 60.0))
        server.send(5, Welcome(True, 2, 60.0))
        assert await visitor.hears() == Welcome(True, 2, 60.0)
        assert heard.said == [(4, hello()), (4, Resize(3))]
        visitor.writer.close()
        while not heard.silent:
            await asyncio.sleep(0)

    play(tmp_path, story)


def test_a_driver_and_a_store_are_answered(tmp_path: Path) -> None:
    async def drives(visitor: Visitor, heard: Heard, _: Server) -> None:
        visitor.say(hello("driver"))
        visitor.say(Status())
        assert await visitor.hears() == Answer(ok=True, body={"width": 3})
        assert heard.asked == [Status()]

    async def stores(visitor: Visitor, _: Heard, __: Server) -> None:
        visitor.say(hello("store"))
        visitor.say(Ask("add", "n", amount=2))
        assert await visitor.hears() == Answer(ok=True, amount=2)

    play(tmp_path, drives)
    (tmp_path / "s").unlink(missing_ok=True)
    play(tmp_path, stores)


@pytest.mark.parametrize(
    "first",
    [
        hello(token="wrong"),
        hello(token=""),
        hello(role="king"),
        Resize(1),
        Ask("get", "k"),
    ],
)
def test_without_the_right_first_words_the_door_is_shut(tmp_path: Path, first: Message) -> None:
    async def story(visitor: Visitor, heard: Heard, _: Server) -> None:
        visitor.say(first)
        visitor.say(Resize(3))
        assert await visitor.hears() is None
        assert not heard.said
        assert not heard.asked

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("changed", "why"),
    [({"job": "other"}, "job"), ({"incarnation": 1}, "incarnation"), ({"seq": 1}, "seq")],
)
def test_what_is_of_another_job_start_or_time_is_dropped(
    tmp_path: Path, changed: dict[str, object], why: str
) -> None:
    async def story(visitor: Visitor, heard: Heard, server: Server) -> None:
        visitor.say(hello("driver"))
        visitor.say(Resize(9), **changed)  # type: ignore[arg-type]
        visitor.say(Status())
        assert await visitor.hears() == Answer(ok=True, body={"width": 3})
        assert heard.asked == [Status()]
        assert server.dropped == {why: 1}

    play(tmp_path, story)


@pytest.mark.parametrize(
    "line", [b"garbage\n", b'{"type": "Resize"}\n', b"x" * (MOST_LINE_BYTES + 10) + b"\n"]
)
def test_what_is_no_message_shuts_the_door(tmp_path: Path, line: bytes) -> None:
    async def story(visitor: Visitor, heard: Heard, server: Server) -> None:
        visitor.say(hello("driver"))
        visitor.raw(line)
        assert await visitor.hears() is None
        assert not heard.asked
        assert sum(server.dropped.values()) == 1

    play(tmp_path, story)


def test_a_worker_that_comes_again_takes_the_place_of_its_former_self(tmp_path: Path) -> None:
    async def story(visitor: Visitor, heard: Heard, server: Server) -> None:
        visitor.say(hello())
        while not heard.said:
            await asyncio.sleep(0)
        again = Visitor(*await asyncio.open_unix_connection(tmp_path / "s"))
        again.say(hello())
        while len(heard.said) < 2:
            await asyncio.sleep(0)
        server.send(4, Status())
        assert await again.hears() == Status()
        visitor.writer.close()
        again.writer.close()

    play(tmp_path, story)
