"""The client: every question, and whatever else may sit at the other end of a socket."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.api.conftest import MINE
from tests.api.memory import a_failed_job
from tests.api.served import Served
from weft.api import connection
from weft.api.backend import JobKey, Selection
from weft.api.client import Client
from weft.api.errors import NoAnswer, NoSuchJob, Taken
from weft.model.errors import InfeasibleSpec, ProtocolError, UnknownName, WorldError
from weft.view.logs import LogLine, Which

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def test_every_question(served: Served, client: Client) -> None:
    assert client.health().ok
    assert client.health().findings[1].verdict == "warn"
    assert {job.name for job in client.jobs(Selection()).jobs} == {"llama", "secret"}
    assert [job.name for job in client.jobs(Selection("root")).jobs] == ["llama"]
    assert client.jobs(Selection(states=frozenset({""}))).jobs == ()
    assert client.jobs(Selection(most=1)).left == 1
    assert client.why("llama").queue is not None
    assert client.job("llama").workers[0].rank == 0
    assert client.nodes().nodes[0].gpus == 4
    assert [queue.name for queue in client.queues()] == ["default"]
    assert client.top().used_gpus == 3
    assert client.top("nobody").used_gpus == 0
    assert not client.cancel("llama", dry_run=True).ending
    assert client.cancel("llama").ending
    assert client.server().uid == os.geteuid()
    assert client.submit({"run": "true"}, "new").line.name == "new"
    with pytest.raises(Taken):
        client.submit({"run": "true"}, "new")
    with pytest.raises(UnknownName, match="there is no such field"):
        client.submit({"run": "true", "gpu": 1}, "new")


def test_lines_come_byte_for_byte(served: Served, client: Client) -> None:
    texts = [b"plain", b"", b"\xff\x00\r", "größer".encode(), b"x" * 200_000]
    for rank, text in enumerate(texts):
        served.do(served.world.print(MINE, text, rank=rank))
    lines = list(client.logs("llama", Which(ranks=None)))
    assert lines == [LogLine(rank, 1, text, "bench") for rank, text in enumerate(texts)]
    assert [line.text for line in client.logs("llama", Which(frozenset({1, 3})))] == [
        texts[1],
        texts[3],
    ]
    assert [line.rank for line in client.logs("llama", Which(None, None, 2))] == [3, 4]


def test_a_followed_log_ends_with_the_job(served: Served, client: Client) -> None:
    lines = iter(client.logs("llama", Which(), follow_on=True))
    for number in range(3):
        served.do(served.world.print(MINE, b"%d" % number))
        assert next(lines).text == b"%d" % number
    served.do(served.world.put(a_failed_job(MINE)))
    assert list(lines) == []


def test_a_job_is_followed_until_it_is_deleted(served: Served, client: Client) -> None:
    with client.changes("llama") as changes:
        told = (detail and detail.line.state for detail in changes)
        assert next(told) == "Running"
        served.do(served.world.change(MINE, state="Succeeded"))
        assert next(told) == "Succeeded"
        served.do(served.world.delete(MINE))
        assert list(told) == [None]
    with pytest.raises(NoSuchJob):
        client.changes("llama")
    with pytest.raises(NoSuchJob):
        client.logs("llama", Which())


def test_news_come_with_every_change(served: Served, client: Client) -> None:
    with client.news() as news:
        told = iter(news)
        before = next(told)
        served.do(served.world.change(JobKey("alice", "secret"), gpus=2))
        assert next(told) == before + 1


def test_a_stream_can_be_closed_by_another_thread(client: Client) -> None:
    stream = client.news()
    told = iter(stream)
    next(told)
    threading.Timer(0.05, stream.close).start()
    with pytest.raises(NoAnswer):
        next(told)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda _path: None, "nobody answers"),
        (lambda path: path.touch(), "nobody answers"),
        (lambda path: path.mkdir(), "nobody answers"),
    ],
)
def test_where_nobody_listens(tmp_path: Path, make: object, words: str) -> None:
    path = tmp_path / "weft.sock"
    assert callable(make)
    make(path)
    for ask in (lambda: Client(path).nodes(), lambda: Client(path).news()):
        with pytest.raises(NoAnswer, match=words) as raised:
            ask()
        assert raised.value.hint == "weft local up starts a world on this machine"
    with pytest.raises(NoAnswer):
        Client(tmp_path / ("x" * 200)).nodes()


@contextmanager
def a_stranger(path: Path, answer: bytes) -> Iterator[Client]:
    """Somebody who says this to everybody, and hangs up."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def speak() -> None:
            while True:
                try:
                    speaking, _ = listening.accept()
                except OSError:
                    return
                with speaking:
                    speaking.recv(65_536)
                    speaking.sendall(answer)

        thread = threading.Thread(target=speak)
        thread.start()
        try:
            yield Client(path)
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"", NoAnswer),
        (b"hello\n", NoAnswer),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", NoAnswer),
        (OK + b"Content-Length: 5\r\n\r\nhello", WorldError),
        (OK + b"Content-Length: 2\r\n\r\n[]", ProtocolError),
        (OK + b'Content-Length: 15\r\n\r\n{"nodes": null}', ProtocolError),
        (b"HTTP/1.1 502 Bad\r\nContent-Length: 4\r\n\r\noops", WorldError),
        (b"HTTP/1.1 502 Bad\r\nContent-Length: 2\r\n\r\n[]", WorldError),
    ],
)
def test_a_stranger_at_the_socket(tmp_path: Path, answer: bytes, kind: type[Exception]) -> None:
    with a_stranger(tmp_path / "s", answer) as client, pytest.raises(kind):
        client.nodes()


STREAM = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        (b"", "broke off|could not be read"),
        (b'5\r\n{"ran', "broke off|could not be read"),
        (b"3\r\n{}\n\r\n0\r\n\r\n", "no answer|broke off|rank"),
        (b"4\r\nxyz\n\r\n0\r\n\r\n", "this is no answer"),
        (b"1\r\n\n\r\n0\r\n\r\n", "broke off"),
        (b"zz\r\n", "could not be read|broke off"),
    ],
)
def test_a_stream_that_breaks_off_is_no_end(tmp_path: Path, rest: bytes, words: str) -> None:
    """A log that is cut must not look like one that is over."""
    with a_stranger(tmp_path / "s", STREAM + rest) as client:
        with pytest.raises(NoAnswer, match=words):
            list(client.logs("llama", Which()))
        with pytest.raises(NoAnswer):
            list(client.changes("llama"))


def test_an_error_on_the_way_is_what_it_was(tmp_path: Path) -> None:
    told = b'{"error":"the disk is full","hint":"empty it","code":"infeasible"}'
    for form, ask in ((b"%s\n", "logs"), (b"event: error\ndata: %s\n\n", "changes")):
        body = form % told
        answer = STREAM + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        with a_stranger(tmp_path / ask, answer) as client:
            stream = client.logs("x", Which()) if ask == "logs" else client.changes("x")
            with pytest.raises(InfeasibleSpec, match="the disk is full") as raised:
                list(stream)
            assert raised.value.hint == "empty it"


def test_silence_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(connection, "SILENCE_SECONDS", 0.05)
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        with pytest.raises(NoAnswer, match="no answer from"):
            Client(path).nodes()
