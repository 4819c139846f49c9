"""Agents and scripts by fork from one process that has imported what they import.

Importing torch takes four seconds of a processor, and the tests start some two hundred processes.
So each pytest worker keeps one process that has imported torch, Weft's library and its agent, and
computes nothing; whatever a test starts is forked from it, with variables, folder and pipes of its
own. An agent gets a zygote of its own in the same way, as a child, so that the workers it asks for
are forked by the code that real jobs use. Who starts plainly is tested in `test_zygote.py`.

    python -m tests.train.cradle <descriptor> [<module> ...]      the process; tests call `begin`
"""

import atexit
import functools
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from weft import crash
from weft.agent.__main__ import main as agent
from weft.agent.checkpoint import beneath
from weft.agent.workers.spawn_pool import SWITCH
from weft.cli.main import main as weft
from weft.train import zygote

ROOT: Final = Path(__file__).resolve().parents[2]
LENGTH: Final = struct.Struct("<I")
PIPES: Final = 3

# -------------------------------------------------------------------------------- for the tests


class Forked:
    """A process of the cradle's, as `subprocess.Popen` would show it."""

    def __init__(self, pid: int, stdin: IO[str], stdout: IO[str], stderr: IO[str]) -> None:
        self.pid, self.stdin, self.stdout, self.stderr = pid, stdin, stdout, stderr
        self.returncode: int | None = None
        self._ended = threading.Event()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout) or self.returncode is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):  # it has ended, and that is on its way to us
            if self.returncode is None:
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def end(self, code: int) -> None:
        self.returncode = code
        self._ended.set()


#: What else the process of the present test has imported, of modules that few tests need.
imported: tuple[str, ...] = ()


def begin(argv: list[str], *, agent: bool, folder: Path, env: dict[str, str]) -> Forked:
    """Start an agent with these arguments, or a script."""
    return _cradle(imported).begin(
        {"argv": argv, "agent": agent, "folder": str(folder), "env": env}
    )


class Cradle:
    """The process, and those that it has forked."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        self._line, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.train.cradle", str(theirs.fileno()), *modules],
                cwd=ROOT,
                env={**_clean(), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1"},
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
            )
        self._lock = threading.Lock()
        self._begun: list[Forked] = []
        self._born = threading.Semaphore(0)
        self._pids: list[int] = []
        self._early: dict[int, int] = {}
        threading.Thread(target=self._listen, daemon=True).start()
        atexit.register(self._process.kill)

    def begin(self, request: dict[str, Any]) -> Forked:
        with self._lock:
            pipes = [os.pipe() for _ in range(PIPES)]
            text = json.dumps(request).encode()
            theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
            socket.send_fds(self._line, [LENGTH.pack(len(text))], theirs)
            self._line.sendall(text)
            for handle in theirs:
                os.close(handle)
            if not self._born.acquire(timeout=120):
                raise AssertionError("the cradle does not answer")
            ours = [os.fdopen(pipes[0][1], "w"), os.fdopen(pipes[1][0]), os.fdopen(pipes[2][0])]
            forked = Forked(self._pids.pop(), *ours)
            self._begun.append(forked)
            if forked.pid in self._early:
                forked.end(self._early.pop(forked.pid))
            return forked

    def _listen(self) -> None:
        reader = self._line.makefile("rb")
        while head := reader.read(LENGTH.size):
            message = json.loads(reader.read(LENGTH.unpack(head)[0]))
            if "pid" in message:
                self._pids.append(message["pid"])
                self._born.release()
                continue
            pid, code = message["ended"], message["code"]
            known = [one for one in self._begun if one.pid == pid and one.returncode is None]
            for one in known:
                one.end(code)
            if not known:
                self._early[pid] = code


@functools.cache
def _cradle(modules: tuple[str, ...]) -> Cradle:
    return Cradle(modules)


def _clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}


# ------------------------------------------------------------------------------ in the process


def main() -> None:
    line = socket.socket(fileno=int(sys.argv[1]))
    for name in sys.argv[2:]:
        with suppress(ImportError):
            importlib.import_module(name)
    assert zygote.prepare(sharded=True), "a fork is not safe: there are threads"
    request = _next(line)
    line.close()
    if request is None:
        return
    if request["agent"]:
        _be_an_agent(request)
    else:
        sys.argv = request["argv"]
        sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
        zygote.run(sys.argv[0])


def _next(line: socket.socket) -> dict[str, Any] | None:
    """Fork for each request; comes back in what was forked, and with None when nobody asks."""
    waking, woken = socket.socketpair()
    woken.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
    while True:
        found, _, _ = select.select([line, waking], [], [])
        if waking in found:
            waking.recv(4096)
            _tell_ends(line)
        if line not in found:
            continue
        head, handles, _, _ = socket.recv_fds(line, LENGTH.size, PIPES)
        if len(head) < LENGTH.size:
            return None
        request = json.loads(_read(line, LENGTH.unpack(head)[0]))
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            waking.close()
            woken.close()
            _furnish(request, handles)
            return dict(request)
        for handle in handles:
            os.close(handle)
        _say(line, {"pid": pid})


def _tell_ends(line: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _say(line, {"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def _furnish(request: dict[str, Any], handles: list[int]) -> None:
    for number, handle in enumerate(handles):
        os.dup2(handle, number)
        os.close(handle)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["folder"])


def _be_an_agent(request: dict[str, Any]) -> None:
    """With a zygote as a child, as if the agent, or `weft launch`, had started it."""
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        birth = zygote.next_birth(theirs)
        theirs.close()
        if birth is not None:
            birth.become()
            zygote.run(birth.argv[0])
        os._exit(0)
    theirs.close()
    crash._PLAN.__init__(os.environ.get("WEFT_CRASH", ""))  # type: ignore[misc]
    _write_slowly(float(os.environ.get("SLOW_WRITES", "0")))
    os.environ.setdefault(SWITCH, str(ours.detach()))
    sys.argv = ["weft", *request["argv"]]
    try:
        weft() if request["argv"][0] == "launch" else agent()
    except SystemExit as error:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(error.code if isinstance(error.code, int) else 1)


def _write_slowly(seconds: float) -> None:
    """As to a store that is far away: so long for each piece."""
    write = beneath.write_from

    def slowly(descriptor: int, view: memoryview | bytes, at: int) -> None:
        time.sleep(seconds)
        write(descriptor, view, at)

    if seconds:
        beneath.write_from = slowly


def _read(line: socket.socket, left: int) -> bytes:
    text = b""
    while left and (block := line.recv(left)):
        text += block
        left -= len(block)
    return text


def _say(line: socket.socket, message: dict[str, Any]) -> None:
    text = json.dumps(message).encode()
    line.sendall(LENGTH.pack(len(text)) + text)


if __name__ == "__main__":
    main()
