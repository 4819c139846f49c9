"""A real server on a real socket: who asks, who is slow, who asks too much, and its end."""

import asyncio
import json
import logging
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.api.conftest import MINE, THEIRS
from tests.api.memory import a_waiting_job
from tests.api.served import Served, serving
from tests.waiting import HANG_SECONDS, until
from weft.api import connection, gate, socket_file
from weft.api import serving as server
from weft.api.backend import Farewell, JobKey, Selection
from weft.api.client import Client
from weft.api.errors import Forbidden, NoAnswer, NoSuchJob
from weft.api.peer import peer_of
from weft.api.socket_file import GROUP, listen_at
from weft.model.errors import WeftError, WorldError
from weft.view.logs import Which

HEAD = b"GET /v1/nodes HTTP/1.1\r\nHost: x\r\n"


def said(path: Path, *parts: bytes) -> bytes:
    """Everything that comes back until the server closes."""
    with socket.socket(socket.AF_UNIX) as speaking:
        speaking.settimeout(HANG_SECONDS)
        speaking.connect(str(path))
        for part in parts:
            speaking.sendall(part)
        heard = b""
        while part := speaking.recv(65_536):
            heard += part
    return heard


class Somebody:
    """A process of another user, made before there are threads; it asks what it is told to ask."""

    def __init__(self, uid: int) -> None:
        self._here, there = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            self._here.close()
            _be(uid, there)
        there.close()

    def ask(self, path: Path, question: str, *args: object) -> Any:  # noqa: ANN401 - JSON
        self._here.sendall(json.dumps([str(path), question, args]).encode() + b"\n")
        return json.loads(self._here.makefile().readline())

    def close(self) -> None:
        self._here.close()
        os.waitpid(self.pid, 0)


def _be(uid: int, there: socket.socket) -> None:
    status = 1
    try:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        for line in there.makefile():
            path, question, args = json.loads(line)
            there.sendall(json.dumps(_answer(Client(Path(path)), question, args)).encode() + b"\n")
        status = 0
    finally:
        os._exit(status)


def _answer(client: Client, question: str, args: list[Any]) -> object:
    try:
        if question == "jobs":
            return [[job.namespace, job.name, job.message] for job in client.jobs(Selection()).jobs]
        if question == "submit":
            return client.submit({"run": "true"}, *args).line.namespace
        return bool(getattr(client, question)(args[0], owner=args[1]))
    except WeftError as error:
        return type(error).__name__


@contextmanager
def people(*uids: int) -> Iterator[list[Somebody]]:
    with ExitStack() as stack:
        made = [Somebody(uid) for uid in uids]
        for each in made:
            stack.callback(each.close)
        yield made


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_two_users_of_one_machine() -> None:
    """Each is who the kernel says, sees the list, and gets at nothing of the other's."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    try:
        with people(60_001, 60_002) as (alice, bob), serving(folder / "weft.sock") as served:
            path = served.socket
            assert alice.ask(path, "submit", "llama") == "60001"
            assert bob.ask(path, "submit", "llama") == "60002"
            assert alice.ask(path, "jobs") == [
                ["60001", "llama", "1 of 4 suitable GPUs are free; this job needs 4."],
                ["60002", "llama", None],
            ]
            for question in ("job", "why", "cancel"):
                assert bob.ask(path, question, "llama", "60001") == "Forbidden"
                assert bob.ask(path, question, "llama", "60002") is True
                assert bob.ask(path, question, "llama", None) is True
            assert {who.uid for _, who in served.world.asked} == {60_001, 60_002}
            assert not any(who.admin for _, who in served.world.asked)
            Client(path).cancel("llama", owner="60001")
            assert served.world.asked[-1][1].admin
    finally:
        shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_socket_of_a_group_is_closed_to_others() -> None:
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    try:
        with people(60_001) as (alice,):
            file = listen_at(folder / "weft.sock", mode=GROUP, group=60_009)
            assert stat.S_IMODE(file.path.stat().st_mode) == GROUP
            assert file.path.stat().st_gid == 60_009
            assert alice.ask(file.path, "jobs") == "NoAnswer"
            file.close()
    finally:
        shutil.rmtree(folder)


def test_whoever_is_not_at_a_unix_socket_is_not_known(served: Served) -> None:
    """The same server, were somebody to give it a socket of another kind."""
    here, there = socket.socketpair()
    with here, there:
        assert peer_of(here) is not None

    class OverTcp:
        family = socket.AF_INET

        def getsockopt(self, *_: int) -> bytes:
            raise AssertionError("nobody asks a TCP socket")

    assert peer_of(OverTcp()) is None


def test_whoever_says_nothing_is_let_go(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as speaking:
        speaking.settimeout(HANG_SECONDS)
        speaking.connect(str(served.socket))
        speaking.sendall(HEAD + b"\r\n")
        heard = b""
        while not heard.endswith(b'"notes":[]}'):
            heard += speaking.recv(65_536)
        monkeypatch.setattr(server, "REQUEST_SECONDS", 0.05)
        speaking.sendall(b"GET /v1")
        assert speaking.recv(65_536) == b""
    assert said(served.socket) == b""
    assert said(served.socket, HEAD) == b""


def test_whoever_sends_slowly_is_told(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "BODY_SECONDS", 0.05)
    head = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
    assert said(served.socket, head).startswith(b"HTTP/1.1 408")


def test_whoever_sends_too_much_is_told(served: Served) -> None:
    length = gate.MOST_BODY_BYTES + 1
    head = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length
    with socket.socket(socket.AF_UNIX) as speaking:
        speaking.connect(str(served.socket))
        speaking.sendall(head)
        speaking.sendall(b" " * length)
        assert speaking.recv(64).startswith(b"HTTP/1.1 413")
    with pytest.raises(WorldError, match="too much"):
        Client(served.socket).submit({"run": "x" * (2 * length)}, "big")


@pytest.mark.parametrize("noise", [b"\x00\xff\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"A" * 100_000])
def test_noise_is_answered_or_cut(served: Served, noise: bytes) -> None:
    with suppress(ConnectionError):  # it is cut while it still speaks
        assert said(served.socket, noise).startswith(b"HTTP/1.1 400")
    assert Client(served.socket).health().ok


def test_one_user_cannot_take_every_connection(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)
    client = Client(served.socket)
    open_ones = [client.news() for _ in range(3)]
    try:
        with pytest.raises(WorldError, match="too many connections"):
            client.nodes()
    finally:
        for each in open_ones:
            each.close()
    until(lambda: served.world.following == 0, "the reader to be forgotten")
    assert client.nodes().nodes


@pytest.mark.parametrize(("handles", "kept"), [(1_000, 6), (16, 4), (4, 1)])
def test_lines_that_say_nothing_leave_handles_for_others(
    served: Served, monkeypatch: pytest.MonkeyPatch, handles: int, kept: int
) -> None:
    """Of one user no more are kept than twice what is answered, and few where all are many."""
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)
    monkeypatch.setattr(server, "_handles", lambda: handles)
    doors = []
    try:
        for _ in range(10):
            doors.append(socket.socket(socket.AF_UNIX))
            doors[-1].connect(str(served.socket))
        for door in doors[kept:]:
            door.settimeout(HANG_SECONDS)
            assert door.recv(1) == b"", "it was closed"
        for door in doors[:kept]:
            door.setblocking(False)
            with pytest.raises(BlockingIOError):
                door.recv(1)
    finally:
        for door in doors:
            door.close()


def test_a_full_queue_at_the_door_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is told that there is no daemon because others came before."""
    path = tmp_path / "door"
    with ExitStack() as doors:
        listening = doors.enter_context(socket.socket(socket.AF_UNIX))
        listening.bind(str(path))
        listening.listen(0)
        with pytest.raises(BlockingIOError):
            for _ in range(8):
                each = doors.enter_context(socket.socket(socket.AF_UNIX))
                each.setblocking(False)
                each.connect(str(path))
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            """Meanwhile one of those at the door is let in."""
            pauses.append(seconds)
            doors.enter_context(listening.accept()[0])

        clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=pause)
        monkeypatch.setattr(connection, "time", clock)
        one_more = connection.UnixConnection(path, timeout_seconds=HANG_SECONDS)
        one_more.connect()
        one_more.close()
        assert pauses == [connection.CROWD_PAUSE_SECONDS]


def test_a_stream_whose_reader_is_gone_is_closed(served: Served, client: Client) -> None:
    stream = client.logs(MINE.name, _which(), follow_on=True)
    served.do(served.world.print(MINE, b"one"))
    lines = iter(stream)  # held, because a stream that nobody iterates over is closed
    assert next(lines).text == b"one"
    assert served.world.following == 1
    stream.close()
    until(lambda: served.world.following == 0, "the reader to be forgotten")


def test_the_end_of_a_server_is_told_to_whoever_follows(tmp_path: Path) -> None:
    with serving(tmp_path / "weft.sock") as served:
        served.do(served.world.put(a_waiting_job(MINE)))
        stream = iter(Client(served.socket).changes(MINE.name))
        assert next(stream) is not None
    with pytest.raises(NoAnswer, match="the server stops"):
        next(stream)
    assert not served.socket.exists()


def test_stopping_is_for_the_owner_of_the_world(served: Served, client: Client) -> None:
    client.stop(Farewell.KEEP)
    assert served.world.stopped == [Farewell.KEEP]


def test_names_are_one_s_own(client: Client) -> None:
    assert client.job(MINE.name).detail.line.namespace == "root"
    with pytest.raises(NoSuchJob, match="no job 'secret' of 'root'"):
        client.job(THEIRS.name)
    assert client.job(THEIRS.name, owner=THEIRS.owner).detail.line.name == "secret"


def test_one_server_for_one_path(served: Served) -> None:
    with pytest.raises(WorldError, match="somebody serves"):
        listen_at(served.socket, mode=0o600)


def test_a_file_that_was_left_behind_is_no_hindrance(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "weft.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    file = listen_at(path, mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    file.close()
    assert not path.exists()


def test_paths_that_cannot_be_a_socket(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="too long"):
        listen_at(tmp_path / ("x" * 120), mode=0o600)
    (tmp_path / "file").touch()
    with pytest.raises(WorldError, match="cannot listen"):
        listen_at(tmp_path / "file" / "weft.sock", mode=0o600)
    assert socket_file.LONGEST == 107


def test_a_defect_is_logged_and_the_server_goes_on(
    served: Served, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    served.world.fails = RuntimeError("swordfish")
    with caplog.at_level(logging.ERROR), pytest.raises(WeftError, match="failed at this"):
        client.nodes()
    until(lambda: "swordfish" in caplog.text, "the log")
    served.world.fails = None
    assert client.nodes().nodes


def test_many_ask_at_once(served: Served) -> None:
    client = Client(served.socket)

    async def all_of_them() -> set[int]:
        asking = [asyncio.to_thread(client.jobs, Selection()) for _ in range(30)]
        return {len(page.jobs) for page in await asyncio.gather(*asking)}

    assert asyncio.run(all_of_them()) == {2}


def test_a_job_may_have_the_name_of_an_address(served: Served, client: Client) -> None:
    for name in ("changes", "jobs", "logs", "cancel"):
        served.do(served.world.put(a_waiting_job(JobKey("root", name))))
        assert client.job(name).detail.line.name == name


def test_somebody_else_s_log_is_forbidden_before_it_is_looked_for(tmp_path: Path) -> None:
    with serving(tmp_path / "weft.sock", admins=()) as served:
        for name in ("secret", "none"):
            with pytest.raises(Forbidden):
                Client(served.socket).logs(name, _which(), owner="alice")
        assert not served.world.asked


def _which() -> Which:
    return Which(ranks=None)
