"""A process that has imported what training scripts import, and forks workers from there.

Importing torch takes seconds; a fork takes milliseconds. So an agent keeps one such process and has
it fork a worker for each script that it starts. Only imports are shared: nothing was computed
before the fork, no device was touched, and there is no other thread, or else no worker is forked at
all and the agent starts them the plain way. A worker is forked twice, so that it becomes a child of
the agent, which reaps orphans; it leads a session of its own and finds its variables, arguments,
output and search path as if it had been started by itself, and it ends as soon as everything of
the script's has been done.
"""

import atexit
import ctypes
import importlib
import json
import os
import runpy
import signal
import socket
import struct
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NoReturn

IMPORTS: Final = ("torch", "torch.distributed", "torch._dynamo", "weft.train.api")
SHARDED_IMPORTS: Final = ("torch.distributed.device_mesh", "torch.distributed.fsdp")
LENGTH: Final = struct.Struct("<I")
PR_SET_NAME: Final = 15


@dataclass(frozen=True, slots=True)
class Birth:
    """A worker to be: what `subprocess` would have been given."""

    argv: list[str]
    env: dict[str, str]
    cpus: list[int]
    output: int
    errors: int

    def become(self) -> None:
        """Turn this fresh process into it."""
        if self.cpus:
            os.sched_setaffinity(0, self.cpus)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (self.output, 1), (self.errors, 2)):
            os.dup2(source, target)
        for spare in (nothing, self.output, self.errors):
            os.close(spare)
        os.environ.clear()
        os.environ.update(self.env)
        sys.argv = list(self.argv)
        sys.path[0] = str(Path(self.argv[0]).resolve().parent)
        _be_called(Path(self.argv[0]).name)
        _draw_anew()


def main() -> None:
    """`python -m weft.train.zygote <descriptor of the agent's socket>`."""
    with socket.socket(fileno=int(sys.argv[1])) as line:
        ready = prepare(sharded=os.environ.get("WEFT_SHARD", "1") != "1")
        tell(line, {"ready": ready})
        birth = next_birth(line) if ready else None
    if birth is not None:
        birth.become()
        run(birth.argv[0])


def run(script: str) -> NoReturn:
    """The script, and then the end: as the interpreter's own, but without taking torch apart."""
    code, interrupted = 1, False
    try:
        runpy.run_path(script, run_name="__main__")
        code = 0
    except SystemExit as error:
        code = _code(error)
    except BaseException as error:
        error.__traceback__ = script_part(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        interrupted = isinstance(error, KeyboardInterrupt)
    finally:
        with suppress(BaseException):
            threading._shutdown()  # type: ignore[attr-defined]  # threads that are not daemons
        with suppress(BaseException):
            atexit._run_exitfuncs()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        if interrupted:  # its end shall say so, as the interpreter's own would
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(code)


def script_part(trace: TracebackType | None) -> TracebackType | None:
    """What the interpreter itself would show: from the first line of the script on."""
    ours = (__file__, runpy.__file__, "<frozen runpy>")
    while trace is not None and trace.tb_frame.f_code.co_filename in ours:
        trace = trace.tb_next
    return trace


def prepare(*, sharded: bool = False) -> bool:
    """Import everything; whether it is safe to fork afterwards."""
    for name in (*IMPORTS, *(SHARDED_IMPORTS if sharded else ())):
        importlib.import_module(name)
    return len(list(Path("/proc/self/task").iterdir())) == 1


def next_birth(line: socket.socket) -> Birth | None:
    """Fork for as long as anybody asks. Comes back in a worker, and with None when nobody asks."""
    while (asked := _asked(line)) is not None:
        pid = _fork_twice()
        if pid == 0:
            return asked
        for handle in (asked.output, asked.errors):
            os.close(handle)
        tell(line, {"pid": pid})
    return None


def tell(line: socket.socket, message: dict[str, Any]) -> None:
    text = json.dumps(message).encode()
    with suppress(BrokenPipeError):
        line.sendall(LENGTH.pack(len(text)) + text)


def _asked(line: socket.socket) -> Birth | None:
    head, handles, _, _ = socket.recv_fds(line, LENGTH.size, 2)
    if len(head) < LENGTH.size or len(handles) < 2:  # noqa: PLR2004 - output and errors
        return None
    (left,) = LENGTH.unpack(head)
    text = b""
    while left and (block := line.recv(left)):
        text += block
        left -= len(block)
    return None if left else Birth(**json.loads(text), output=handles[0], errors=handles[1])


def _fork_twice() -> int:
    """The worker's process id, and 0 in the worker; the one in between has ended.

    The worker is told of when it leads its session, because signals are sent to that.
    """
    reading, writing = os.pipe()
    between = os.fork()
    if between:
        os.close(writing)
        told = os.read(reading, 32)
        os.close(reading)
        os.waitpid(between, 0)
        return int(told)
    os.close(reading)
    if os.fork():
        os._exit(0)
    os.setsid()
    os.write(writing, str(os.getpid()).encode())
    os.close(writing)
    return 0


def _code(error: SystemExit) -> int:
    """As the interpreter reads it: nothing is 0, a text is an error that is told."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    sys.stderr.write(f"{error.code}\n")
    return 1


def _be_called(name: str) -> None:
    """What `top` shows."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def _draw_anew() -> None:
    """Processes that were started one by one draw different numbers; so do these."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


if __name__ == "__main__":
    main()
