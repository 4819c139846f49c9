"""Hostile users, and one who is not: the daemon lives, and the jobs of that one succeed.

The jobs of hostile users do what `hostile_agent` knows, and the users themselves what is below,
each under an account of its own. The daemon's clock runs faster than ours. Beside them one user
submits small jobs.
"""

import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Final

import pytest

from tests.local.daemons import Lab, a_lab, forked, wait_until
from tests.local.hasty import hasten
from tests.local.hostile_agent import KINDS
from tests.local.users import _become, as_user, needs_root
from weft.agent.run_folder import SHARED_MEMORY
from weft.api.backend import Origin
from weft.model.errors import WeftError

USERS: Final = len(KINDS)  # one for each kind of mischief
FACTOR: Final = 4.0
JOBS: Final = 4
FIRST_UID: Final = 61_100
DAVE: Final = 61_099
SLOTS: Final = 8
PATIENCE: Final = 240.0
PAUSE: Final = 0.2  # of a user between two ideas
HANDLES: Final = 1_024  # as many as a process has by default
LOOKS: Final = 8  # of a user at a job of its own before it is cancelled
UNFINISHED: Final = ("Running", "Queued", "Starting")
LASTS: Final = "total=10 step=0.1"
# A traceback within a line is that of a user's program, which the daemon quotes.
ENDED: Final = re.compile(
    r"a term ended|^Traceback|Task exception was never retrieved", re.MULTILINE
)


@pytest.fixture
def lab() -> Iterator[Lab]:
    needs_root()
    with a_lab(for_all=True, slots=SLOTS, agent="tests.local.hostile_agent", log_gib=0.02) as lab:
        yield lab
    for number in range(FIRST_UID, FIRST_UID + USERS):
        subprocess.run(["rm", "-rf", str(SHARED_MEMORY / f"weft-{number:016x}")], check=False)


@pytest.mark.timeout(600)
def test_jobs_beside_hostile_users_succeed(lab: Lab) -> None:
    def sabotage() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (HANDLES, HANDLES))
        hasten(FACTOR)

    lab.start(sabotage=sabotage)
    with crowd(lab):
        for number in range(JOBS):
            finishes(lab, f"dave-{os.getpid()}-{number}")
    print(f"daemon:  {figures(lab)}", file=sys.stderr)  # noqa: T201 - what was measured
    assert lab.alive, lab.log.read_text()[-3000:]
    assert not ENDED.search(lab.log.read_text()), surroundings(lab.log.read_text())


def finishes(lab: Lab, name: str) -> None:
    """Dave submits a small job and waits until it is over."""
    as_user(DAVE, lambda: submitted(lab, name, "model total=1 step=0.01"))
    wait_until(lambda: over(lab, name), f"{name} to end", lab.log, PATIENCE)


def over(lab: Lab, name: str) -> bool:
    state = lab.client.job(name, owner=str(DAVE)).detail.line.state
    assert state != "Failed", name
    return state == "Succeeded"


def submitted(lab: Lab, name: str, run: str, **spec: object) -> str:
    asked = {"run": run, "resources": {"gpus": 1}, **spec}
    return lab.client.submit(asked, name, origin=Origin("/")).uid


# --- the others ---------------------------------------------------------------------------------


@contextmanager
def crowd(lab: Lab) -> Iterator[None]:
    """Processes of users, each of which does what it does again and again."""
    kinds = islice(cycle(KINDS), USERS)
    processes = [
        forked(lambda: live(lab, FIRST_UID + n, kind), lab.folder / "crowd.log")  # noqa: B023
        for n, kind in enumerate(kinds)
    ]
    try:
        yield
    finally:
        for pid in processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def live(lab: Lab, uid: int, kind: str) -> None:
    """One of them; what the daemon answers is all the same to them. It ends with its test."""
    test = os.getppid()
    _become(uid)
    first = uid % len(HABITS)
    habits = cycle((*HABITS[first:], *HABITS[:first]))
    retry = {"limit": 20} if kind == "quick" else {"limit": 0}
    for number, habit in enumerate(habits):
        time.sleep(PAUSE)
        if os.getppid() != test:
            return
        name = f"job-{uid}-{number}-{kind}"
        with suppress(WeftError, OSError, ValueError):
            submitted(lab, name, f"{kind} {LASTS}", retry=retry)
        with suppress(WeftError, OSError, ValueError):
            habit(lab)
        with suppress(WeftError, OSError, ValueError):
            for _ in range(LOOKS):
                if lab.client.job(name).detail.line.state not in UNFINISHED:
                    break
                time.sleep(0.5)
            else:
                lab.client.cancel(name)


def rest(lab: Lab) -> None:
    time.sleep(0.1)


def bad_names(lab: Lab) -> None:
    odd = ("", "..", "a/b", "a\nb", "\x1b[31mred", "\0", "x" * 10_000, "\u202egnp", "-", "%2e%2e")
    for name in odd:
        with suppress(WeftError, ValueError):
            submitted(lab, name, "true")
        with suppress(WeftError, ValueError):
            lab.client.job(name)


def bad_files(lab: Lab) -> None:
    nested: object = "x"
    for _ in range(900):
        nested = [nested]
    for spec in ({"env": nested}, {"retry": {"limit": 1 << 90}}, {"workdir": "\0" * 99}):
        with suppress(WeftError, ValueError, RecursionError):
            submitted(lab, "odd", "true", **spec)


def many(lab: Lab) -> None:
    """Submits and cancels, from two sides at once."""

    def cancel() -> None:
        for number in range(40):
            with suppress(WeftError, OSError, ValueError):
                lab.client.cancel(f"many-{number}")

    canceller = threading.Thread(target=cancel)
    canceller.start()
    for number in range(40):
        with suppress(WeftError):
            submitted(lab, f"many-{number}", "quick total=1")
    canceller.join()
    cancel()


def garbage(lab: Lab) -> None:
    """What is no request, half of one, and lines that are opened and left."""
    half = b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\n"
    said = (b"\0" * 5_000, half, b"POST /v1/jobs HTTP/1.1\r\nContent-Length: 999999999\r\n\r\n{")
    doors = []
    with suppress(OSError):
        for number in range(120):
            door = socket.socket(socket.AF_UNIX)
            door.settimeout(1.0)
            door.connect(str(lab.socket))
            doors.append(door)
            with suppress(OSError):
                door.send(said[number % 3])
    time.sleep(1.0)
    for door in doors:
        door.close()


HABITS: Final[tuple[Callable[[Lab], None], ...]] = (rest, bad_names, garbage, many, bad_files)


# --- what is seen of the daemon -----------------------------------------------------------------


def figures(lab: Lab) -> str:
    status = Path(f"/proc/{lab.pid}/status").read_text()
    memory = int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) >> 10
    handles = len(os.listdir(f"/proc/{lab.pid}/fd"))
    over = sum(1 for _ in lab.folder.glob("jobs/*"))
    return f"{memory} MiB at most, {handles} handles, {over} jobs taken in"


def surroundings(text: str) -> str:
    at = ENDED.search(text)
    return text[max(at.start() - 500, 0) : at.end() + 4000] if at else ""
