"""A hundred users who mean harm, and one who does not: the daemon lives, and he is not delayed.

Their jobs do what `hostile_agent` knows, and they themselves what is below, each under an account
of its own. The daemon's clock runs faster than ours. Beside them one user submits small jobs, as he
does in a calm run with as many jobs that do nothing but last as long. `WEFT_THOROUGH=1` plays an
hour of the daemon's time with a hundred users; otherwise it is less than a minute with one user for
each kind of mischief, and no calm run:

    WEFT_THOROUGH=1 python -m pytest -s tests/local/test_crowd.py
"""

import os
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
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

THOROUGH: Final = bool(os.environ.get("WEFT_THOROUGH"))
USERS: Final = 100 if THOROUGH else len(KINDS)
FACTOR: Final = 10.0 if THOROUGH else 4.0
HOUR: Final = 3_600.0 if THOROUGH else 40.0
FIRST_UID: Final = 61_100
DAVE: Final = 61_099
SLOTS: Final = 8
PATIENCE: Final = 240.0
PAUSE: Final = 2.0 if THOROUGH else 0.2  # of a user between two ideas
HANDLES: Final = 1_024  # as many as a process has by default
LASTS: Final = "total=10 step=0.1"
ENDED: Final = re.compile(r"a term ended|Traceback|Task exception was never retrieved")


@dataclass
class Seen:
    """How the one user fared; seconds of ours."""

    jobs: list[float] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)

    def told(self) -> str:
        answers = sorted(self.answers)
        return (
            f"{len(self.jobs)} jobs of median {statistics.median(self.jobs):.2f} s, at most "
            f"{max(self.jobs):.2f} s; {len(answers)} answers of median "
            f"{statistics.median(answers) * 1e3:.0f} ms, 99 in 100 within "
            f"{answers[int(len(answers) * 0.99)] * 1e3:.0f} ms, at most {answers[-1]:.2f} s"
        )


@pytest.fixture
def lab() -> Iterator[Lab]:
    needs_root()
    with a_lab(for_all=True, slots=SLOTS, agent="tests.local.hostile_agent", log_gib=0.02) as lab:
        yield lab
    for number in range(FIRST_UID, FIRST_UID + USERS):
        subprocess.run(["rm", "-rf", str(SHARED_MEMORY / f"weft-{number:016x}")], check=False)


@pytest.mark.timeout(3600 if THOROUGH else 600)
def test_a_crowd_of_enemies_delays_nobody(lab: Lab) -> None:
    def sabotage() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (HANDLES, HANDLES))
        hasten(FACTOR)

    lab.start(sabotage=sabotage)
    with crowd(lab, hostile=True):
        harmed = lives_beside(lab, HOUR / FACTOR)
    print(f"\nhostile: {harmed.told()}", file=sys.stderr)  # noqa: T201 - what was measured
    print(f"daemon:  {figures(lab)}", file=sys.stderr)  # noqa: T201 - what was measured
    assert lab.alive, lab.log.read_text()[-3000:]
    assert not ENDED.search(lab.log.read_text()), surroundings(lab.log.read_text())
    if THOROUGH:
        with crowd(lab, hostile=False):
            calm = lives_beside(lab, 60.0)
        print(f"calm:    {calm.told()}", file=sys.stderr)  # noqa: T201 - what was measured
        assert statistics.median(harmed.jobs) < 1.5 * statistics.median(calm.jobs) + 0.5


def lives_beside(lab: Lab, seconds: float) -> Seen:
    """Dave submits a small job, waits until it is over, and submits the next one."""
    seen, until, number = Seen(), time.monotonic() + seconds, 0
    while time.monotonic() < until or not seen.jobs:
        number += 1
        began = time.monotonic()
        name = f"dave-{os.getpid()}-{number}-{int(began)}"
        as_user(DAVE, lambda: submitted(lab, name, "model total=1 step=0.01"))  # noqa: B023
        wait_until(lambda: over(lab, name, seen), f"{name} to end", lab.log, PATIENCE)  # noqa: B023
        seen.jobs.append(time.monotonic() - began)
    return seen


def over(lab: Lab, name: str, seen: Seen) -> bool:
    began = time.monotonic()
    state = lab.client.job(name, owner=str(DAVE)).detail.line.state
    seen.answers.append(time.monotonic() - began)
    assert state != "Failed", name
    return state == "Succeeded"


def submitted(lab: Lab, name: str, run: str, **spec: object) -> str:
    asked = {"run": run, "resources": {"gpus": 1}, **spec}
    return lab.client.submit(asked, name, origin=Origin("/")).uid


# --- the others ---------------------------------------------------------------------------------


@contextmanager
def crowd(lab: Lab, *, hostile: bool) -> Iterator[None]:
    """Processes of users, each of which does what it does again and again."""
    kinds = islice(cycle(KINDS), USERS)
    processes = [
        forked(lambda: live(lab, FIRST_UID + n, kind if hostile else ""), lab.folder / "crowd.log")  # noqa: B023
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
    habits = cycle((*HABITS[first:], *HABITS[:first])) if kind else cycle([rest])
    retry = {"limit": 20} if kind == "quick" else {"limit": 0}
    for number, habit in enumerate(habits):
        time.sleep(PAUSE)
        if os.getppid() != test:
            return
        name = f"job-{uid}-{number}-{kind}".rstrip("-")
        with suppress(WeftError, OSError, ValueError):
            submitted(lab, name, f"{kind} {LASTS}", retry=retry)
        with suppress(WeftError, OSError, ValueError):
            habit(lab)
        with suppress(WeftError, OSError, ValueError):
            waited = time.monotonic() + 4.0
            while lab.client.job(name).detail.line.state in ("Running", "Queued", "Starting"):
                time.sleep(0.5)
                if time.monotonic() > waited:
                    lab.client.cancel(name)
                    break


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
