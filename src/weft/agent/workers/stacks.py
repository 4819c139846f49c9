"""Where every thread of a worker stands, written down before one that hangs is killed.

A worker listens for a signal that nothing else uses and answers from within it, so that it can
stand in a collective, in a lock or in native code. The signal ends a process that does not listen:
so only those get it of which the kernel says that they do. NCCL keeps a record of its collectives
that it writes when something is put into a pipe of its own.
"""

import faulthandler
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

STACKS: Final = signal.SIGRTMIN + 7
VARIABLE: Final = "WEFT_STACKS_FILE"
WAIT_SECONDS: Final = 0.3
LOOK_SECONDS: Final = 0.005
COLLECTIVES_KEPT: Final = "2000"
MOST_SHOWN_BYTES: Final = 8 * 1024
HEADING: Final = b"weft: a worker hangs; this one stands here:\n"

_PROC: Final = Path("/proc")


def stacks_file(worker: int | str) -> str:
    """Beside the worker's log."""
    return f"worker-{worker}.stacks"


def collectives_file(worker: int | str) -> str:
    """What NCCL's record begins with; the rank follows."""
    return f"worker-{worker}.nccl-"


def variables(logs: Path, worker: int) -> dict[str, str]:
    """What makes a worker ready to tell; what its owner has set stays."""
    record = str(logs / collectives_file(worker))
    kept = {
        "PYTHONFAULTHANDLER": "1",
        "TORCH_FR_BUFFER_SIZE": COLLECTIVES_KEPT,
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": record,
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": record,
    }
    unset = {name: value for name, value in kept.items() if name not in os.environ}
    return {VARIABLE: str(logs / stacks_file(worker)), **unset}


def listen() -> None:
    """In the worker: answer from now on; the file stays open, since a hung process opens none."""
    if not faulthandler.is_enabled():  # a worker that was forked has not read its variables
        faulthandler.enable()
    path = os.environ.get(VARIABLE)
    if not path or _listens(os.getpid()):
        return
    with suppress(OSError):
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        faulthandler.register(STACKS, file=handle, all_threads=True)


def take(pid: int, logs: Path, worker: int) -> None:
    """Have all processes of a worker tell, and wait for the answer, but not for long."""
    for pipe in logs.glob(f"{collectives_file(worker)}*.pipe"):
        _poke(pipe)
    path = logs / stacks_file(worker)
    before = _size(path)
    if _ask(pid):
        _wait_for_more(path, before)
        _show(path, before, logs / f"worker-{worker}.log")


def _show(path: Path, before: int, log: Path) -> None:
    """In the worker's own log too, where its owner looks first; both files are the worker's."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            told = os.pread(handle, MOST_SHOWN_BYTES, before)
        finally:
            os.close(handle)
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(log, flags)
        try:
            os.write(handle, HEADING + told)
        finally:
            os.close(handle)


def _ask(pid: int) -> int:
    asked = 0
    for one in (pid, *_below(pid)):
        if _listens(one):
            with suppress(ProcessLookupError):
                os.kill(one, STACKS)
                asked += 1
    return asked


def _wait_for_more(path: Path, before: int) -> None:
    """Until something was written and nothing more comes."""
    deadline, last = time.monotonic() + WAIT_SECONDS, before
    while time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        size = _size(path)
        if before < size == last:
            return
        last = size


def _listens(pid: int) -> bool:
    try:
        lines = (_PROC / str(pid) / "status").read_text(errors="replace").splitlines()
    except OSError:
        return False
    caught = next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (STACKS - 1) & 1)


def _below(pid: int) -> Iterator[int]:
    """Its children and theirs."""
    with suppress(OSError):
        for task in (_PROC / str(pid) / "task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                yield child
                yield from _below(child)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _poke(pipe: Path) -> None:
    """Nobody may be reading, and it may be anything: a worker owns the folder."""
    with suppress(OSError):
        handle = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.write(handle, b"1")
        finally:
            os.close(handle)
