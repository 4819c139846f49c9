"""The lease server as a process: nonsense ends a connection, and whoever serves may change."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.leases.servers import serving, started
from tests.waiting import HANG_SECONDS
from weft.agent.leases.company import SOCKET, Company, company_of, parse_company
from weft.agent.messages import (
    Accompany,
    Envelope,
    GivenBack,
    Granted,
    Hello,
    Message,
    Turn,
    Waits,
    decode,
    encode,
)
from weft.model.errors import SpecError

HOUR = 3600.0  # no bound and no term of a lease is over before its test is
TURN = Turn(1, (0,), (0,), ("gpu",), HOUR, HOUR)


CLIENTS: list["Client"] = []


@pytest.fixture(autouse=True)
def _everybody_goes() -> Iterator[None]:
    yield
    while CLIENTS:
        CLIENTS.pop().line.close()


class Client:
    """A member, as raw as may be."""

    def __init__(self, folder: Path, job: str) -> None:
        self.job, self.seq = job, 0
        self.line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.line.settimeout(HANG_SECONDS)
        CLIENTS.append(self)
        self.line.connect(str(folder / SOCKET))

    def say(self, *messages: Message) -> "Client":
        for message in messages:
            self.seq += 1
            self.line.send(encode(Envelope(self.job, 1, self.seq, message)))
        return self

    def hear(self) -> Message | None:
        packet = self.line.recv(1 << 16)
        return decode(packet, strict=False).message if packet else None


def hello(role: str = "loop", worker: int = 0) -> Hello:
    return Hello(role, worker, os.getpid(), "")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    server = started(tmp_path)
    serving(tmp_path, server.pid)
    yield tmp_path
    server.kill()
    server.wait()


def test_one_waits_until_the_other_has_given_back(folder: Path) -> None:
    a, b = (Client(folder, name).say(hello(), TURN) for name in "ab")
    assert isinstance(a.hear(), Granted)
    assert isinstance(b.hear(), Waits)
    assert isinstance(b.hear(), Waits), "again and again"
    a.say(GivenBack(("gpu",)))
    while isinstance(answer := b.hear(), Waits):
        pass
    assert isinstance(answer, Granted)


def test_the_end_of_a_connection_gives_back(folder: Path) -> None:
    a = Client(folder, "a").say(hello(), TURN)
    assert isinstance(a.hear(), Granted)
    b = Client(folder, "b").say(hello(), TURN)
    assert isinstance(b.hear(), Waits)
    a.line.close()
    while isinstance(answer := b.hear(), Waits):
        pass
    assert isinstance(answer, Granted)
    assert not answer.breach


@pytest.mark.parametrize(
    "nonsense",
    [
        b"nonsense",
        b"[]\n",
        json.dumps({"type": "Turn", "job": "a", "incarnation": 1, "seq": 1, "body": {}}).encode(),
        encode(Envelope("a", 1, 1, TURN)),
        encode(Envelope("a", 1, 1, hello("driver"))),
        encode(Envelope("a", 1, 1, Granted(0.0))),
    ],
    ids=["text", "list", "empty turn", "turn without hello", "hello of a driver", "grant"],
)
def test_nonsense_ends_a_connection_and_no_server(folder: Path, nonsense: bytes) -> None:
    rude = Client(folder, "rude")
    rude.line.send(nonsense)
    assert rude.hear() is None
    assert isinstance(Client(folder, "a").say(hello(), TURN).hear(), Granted)


def test_a_turn_that_makes_no_sense_ends_its_connection_only(folder: Path) -> None:
    rude = Client(folder, "rude").say(hello(), Turn(1, (0,), (0,), ("gpu",), -1.0, HOUR))
    assert rude.hear() is None
    assert isinstance(Client(folder, "a").say(hello(), TURN).hear(), Granted)


def test_one_that_reads_nothing_holds_nobody_up(folder: Path) -> None:
    deaf = Client(folder, "deaf").say(hello())
    for _ in range(300):
        deaf.say(TURN)
    other = Client(folder, "a").say(hello(), Turn(1, (0,), (1,), ("gpu",), HOUR, HOUR))
    assert isinstance(other.hear(), Granted)


def test_whoever_comes_again_has_a_new_connection(folder: Path) -> None:
    first = Client(folder, "a").say(hello(), TURN)
    assert isinstance(first.hear(), Granted)
    again = Client(folder, "a").say(hello(), TURN)
    assert isinstance(again.hear(), Granted)
    assert first.hear() is None


def test_the_next_serves_when_the_first_has_died(tmp_path: Path) -> None:
    first = started(tmp_path)
    serving(tmp_path, first.pid)
    second = started(tmp_path)
    try:
        first.send_signal(signal.SIGKILL)
        first.wait()
        serving(tmp_path, second.pid)
        assert isinstance(Client(tmp_path, "a").say(hello(), TURN).hear(), Granted)
    finally:
        second.kill()
        second.wait()


def test_company_is_one_word() -> None:
    assert parse_company("") is None
    assert parse_company("/run/x:1,0") == Company(Path("/run/x"), (0, 1))
    assert parse_company("/run/x", (3,)) == Company(Path("/run/x"), (3,))
    assert company_of(Accompany("")) is None
    for text in ("/run/x", "run/x:0", "/run/x:a", f"/run/{'x' * 100}:0"):
        with pytest.raises(SpecError):
            parse_company(text)
