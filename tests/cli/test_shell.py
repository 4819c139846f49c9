"""`weft shell` in a real terminal, with a real daemon behind it."""

import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

import weft as package
from tests.cli.called import Weft
from tests.cli.fake_cluster import FakeApi
from tests.cli.local_world import daemon, here
from tests.local.daemons import Lab, wait_until
from tests.waiting import HANG_SECONDS, until
from weft.cli.shell import session
from weft.cli.shell.frames import DATA, END, NOTICE, Frames, frame
from weft.cli.shell.idleness import Idleness

pytestmark = pytest.mark.slow  # a real daemon

__all__ = ["daemon", "here"]
SOURCE = str(Path(package.__file__).parents[1])


class Terminal:
    """Somebody at a keyboard."""

    def __init__(self, pid: int, handle: int) -> None:
        self._pid, self._handle = pid, handle
        self.screen = ""

    def type(self, text: str) -> None:
        os.write(self._handle, text.encode())

    def see(self, pattern: str) -> re.Match[str]:
        """Wait until it is on the screen."""
        what = f"{pattern!r} on the screen"
        found = until(lambda: self._look(pattern), what, state=lambda: self.screen)
        assert found is not None
        self.screen = self.screen[found.end() :]
        return found

    def _look(self, pattern: str) -> re.Match[str] | None:
        if select.select([self._handle], [], [], 0.0)[0]:
            with suppress(OSError):
                self.screen += os.read(self._handle, 9999).decode(errors="replace")
        return re.search(pattern, self.screen)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._handle, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1

    def status(self) -> int:
        wait_until(lambda: os.waitid(os.P_PID, self._pid, GONE) is not None, "the command to end")
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


GONE = os.WEXITED | os.WNOHANG | os.WNOWAIT


@contextmanager
def typed(lab: Lab, *words: str) -> Iterator[Terminal]:
    pid, handle = pty.fork()
    if pid == 0:
        os.environ |= {"PYTHONPATH": SOURCE, "SHELL": "/bin/sh", "PS1": "> ", "TERM": "dumb"}
        os.environ |= {"WEFT_CONTEXT": "local", "WEFT_LOCAL_SOCKET": str(lab.socket)}
        os.execv(sys.executable, [sys.executable, "-m", "weft.cli.main", *words])
    terminal = Terminal(pid, handle)
    try:
        yield terminal
    finally:
        terminal.close()
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_a_session_has_its_gpus_and_its_window_and_its_status(here: Lab) -> None:
    with typed(here, "shell", "--gpus", "2", "--name", "work") as terminal:
        terminal.see("exit leaves it; it ends after 30m without work")
        assert here.client.job("work").detail.line.gpus == 2
        terminal.type("echo rank=[$RANK] job=$WEFT_JOB $((6 * 7))\n")
        terminal.see(r"rank=\[\] job=work 42\r\n")
        terminal.resize(33, 77)
        terminal.type("until stty size | grep '33 77'; do sleep 0.1; done\n")
        terminal.see("\n33 77\r\n")
        terminal.type("sh -c 'echo now; exec sleep 600'\n")
        terminal.see("\nnow\r\n")
        terminal.type("\x03echo still\thand $?\x15echo here\n")  # Ctrl-C is the shell's
        terminal.see("here\r\n")
        terminal.type("exit 7\n")
        assert terminal.status() == 7
    here.wait_for("work", "Succeeded")


def test_an_idle_session_ends(here: Lab) -> None:
    with typed(here, "shell", "--idle", "2s", "--name", "idle") as terminal:
        terminal.see("without work")
        terminal.see("idle for 2 s: the session ends, its GPUs are free")
        assert terminal.status() != 0
    here.wait_for("idle", "Succeeded")


def test_an_idle_session_is_warned_and_kept_by_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(session, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(session, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr("weft.cli.shell.idleness.processor_seconds", lambda _session: 0.0)
    heard: list[bytes] = []
    (user, connected), (shell, terminal) = socket.socketpair(), socket.socketpair()
    with user, connected, shell, terminal:
        serving = threading.Thread(
            target=session.Session(connected, 1, terminal.fileno(), 400.0).serve
        )
        listening = threading.Thread(target=lambda: heard.extend(notices(user)))
        serving.start()
        listening.start()
        now[0] += 341.0
        until(lambda: len(heard) == 1, "the warning")
        user.sendall(frame(DATA, b" "))
        assert shell.recv(9) == b" "
        now[0] += 341.0
        until(lambda: len(heard) == 2, "the second warning")
        now[0] += 60.0
        serving.join(HANG_SECONDS)
        connected.close()
        listening.join(HANG_SECONDS)
    assert heard == [
        b"idle: the session ends in 59 s; press a key to keep it",
        b"idle: the session ends in 59 s; press a key to keep it",
        b"idle for 400 s: the session ends, its GPUs are free",
    ]


def notices(connected: socket.socket) -> Iterator[bytes]:
    """What Weft says to whoever has the session, to its end."""
    frames = Frames()
    while piece := connected.recv(9999):
        yield from (content for kind, content in frames.feed(piece) if kind == NOTICE)


def test_a_terminal_that_is_closed_gives_the_gpus_back(here: Lab) -> None:
    with typed(here, "shell", "--name", "closed") as terminal:
        terminal.see("without work")
        terminal.close()
    here.wait_for("closed", "Succeeded", "Cancelled")


def test_whoever_stops_waiting_takes_the_job_back(here: Lab, weft: Weft) -> None:
    here.submit("holder", "sleep 300", 2)
    here.wait_for("holder", "Running")
    with typed(here, "shell", "--name", "late") as terminal:
        terminal.see("late Queued")
        terminal.type("\x03")
        terminal.see("interrupted")
        assert terminal.status() == 130
    here.wait_for("late", "Cancelled")
    assert weft("cancel", "holder").status == 0
    here.wait_for("holder", "Cancelled")


def test_a_session_that_is_cancelled_says_so(here: Lab, weft: Weft) -> None:
    with typed(here, "shell", "--name", "stopped") as terminal:
        terminal.see("without work")
        assert weft("cancel", "stopped").status == 0
        terminal.see("the job is stopped, and the session with it")
        assert terminal.status() != 0
    here.wait_for("stopped", "Cancelled")


def test_it_needs_a_terminal(here: Lab, weft: Weft) -> None:
    called = weft("shell")
    assert called.status == 2
    assert "a shell needs a terminal" in called.err
    assert "weft run" in called.err


def test_on_a_cluster_it_is_refused(
    weft: Weft, cluster: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    called = weft("shell")
    assert called.status == 2
    assert "this is a cluster" in called.err
    assert "kubectl exec" in called.err
    assert not cluster.written


def test_frames_come_back_whatever_pieces_they_arrive_in() -> None:
    sent = frame(DATA, b"abc") + frame(DATA, b"") + frame(END, b"\0")
    for size in range(1, len(sent) + 1):
        frames = Frames()
        pieces = (sent[at : at + size] for at in range(0, len(sent), size))
        found = [one for piece in pieces for one in frames.feed(piece)]
        assert found == [(DATA, b"abc"), (DATA, b""), (END, b"\0")]


def test_work_is_no_idleness(monkeypatch: pytest.MonkeyPatch) -> None:
    used = iter([1.0, 1.01, 3.0])
    monkeypatch.setattr("weft.cli.shell.idleness.processor_seconds", lambda _session: next(used))
    idle = Idleness(100.0, 1, since=10.0)
    idle.look(10.0)
    idle.look(20.0)  # a hundredth of a second in ten
    assert idle.left(20.0) == 90.0
    idle.look(30.0)
    assert idle.left(30.0) == 100.0
    assert not idle.warns(100.0)
    assert idle.warns(106.0)
    assert not idle.warns(107.0)
    idle.touch(108.0)
    assert idle.warns(190.0)
