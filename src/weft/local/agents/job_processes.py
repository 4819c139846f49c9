"""Processes of jobs, found and ended without trusting anything that a user could have written.

A process is named by its number, the tick at which it started and the boot it belongs to, so that
no later process can be mistaken for it. Everything that an incarnation started carries its mark in
the environment and runs under its owner's account; whoever ends an incarnation looks for that mark,
not only for children, because those of a killed agent have another parent by then. Where it has a
cgroup, that holds also whoever hides from this.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from weft.local.agents.cgroups import Cgroup
from weft.local.record.entry import Birth

PROC: Final = Path("/proc")
MARK: Final = "WEFT_INCARNATION_MARK"
WORKER: Final = b"WEFT_WORKER="
START_FIELD: Final = 19  # of what follows the command's name in /proc/<pid>/stat, counted from 0
SESSION_FIELD: Final = 3
PARENT_FIELD: Final = 1
MOST_PARENTS: Final = 100
DEAD: Final = frozenset("ZXx")


@dataclass(frozen=True, slots=True)
class Sign:
    """What marks the processes of one incarnation: their environment, and whose they are."""

    text: str
    uid: int
    cgroup: Cgroup | None = None

    @property
    def variable(self) -> bytes:
        return f"{MARK}={self.text}".encode()


@cache
def this_boot() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def birth_of(pid: int) -> Birth | None:
    """The name of a living process; None if there is none."""
    fields = _stat(pid)
    return None if fields is None else Birth(pid, int(fields[START_FIELD]), this_boot())


def is_alive(birth: Birth) -> bool:
    """Whether that very process still runs."""
    return birth_of(birth.pid) == birth


def age_seconds(agent: Birth) -> float:
    """How long ago that process of this boot was started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - agent.ticks / os.sysconf("SC_CLK_TCK")


def find_agent(sign: Sign) -> Birth | None:
    """The process that was started for this incarnation, if nobody wrote down its number."""
    for pid, variables in _marked(sign):
        if not any(variable.startswith(WORKER) for variable in variables):
            return birth_of(pid)
    return None


def account_of(pid: int) -> int | None:
    """Whose process it is; None of one that is gone."""
    try:
        return _owner(PROC / str(pid))
    except OSError:
        return None


def is_marked(pid: int, daemon: str) -> bool:
    """Whether it, or whoever started it, carries a mark of that daemon."""
    wanted, at = f"{MARK}={daemon}:".encode(), pid
    for _ in range(MOST_PARENTS):
        with suppress(OSError):
            variables = (PROC / str(at) / "environ").read_bytes().split(b"\0")
            if any(variable.startswith(wanted) for variable in variables):
                return True
        fields = _stat(at)
        if fields is None or at <= 1:
            return False
        at = int(fields[PARENT_FIELD])
    return False


def of_incarnation(sign: Sign) -> tuple[int, ...]:
    """Every living process of it, and whatever else shares a session with one of its workers."""
    marked = [pid for pid, _ in _marked(sign)]
    sessions = {session for pid in marked if (session := _session(pid)) is not None}
    led = sessions & set(marked)
    kin = [pid for pid in _processes(sign.uid) if _session(pid) in led] if led else []
    held = sign.cgroup.processes if sign.cgroup else ()
    return tuple(dict.fromkeys((*marked, *kin, *held)))


def end_incarnation(sign: Sign) -> int:
    """Kill all of it; how many were found. To be called until nothing is found."""
    if sign.cgroup:
        sign.cgroup.kill()
    found = of_incarnation(sign)
    if sign.cgroup and not found:
        sign.cgroup.remove()
    for pid in found:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


def _marked(sign: Sign) -> Iterator[tuple[int, list[bytes]]]:
    for pid in _processes(sign.uid):
        with suppress(OSError):
            variables = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
            if sign.variable in variables:
                yield pid, variables


def _processes(uid: int) -> Iterator[int]:
    """Living processes of that account, but this one."""
    own = os.getpid()
    for path in PROC.iterdir():
        if not path.name.isdigit() or int(path.name) == own:
            continue
        with suppress(OSError):
            if _owner(path) == uid and _stat(int(path.name)) is not None:
                yield int(path.name)


def _owner(path: Path) -> int:
    """Whose process it is; the folder itself is root's where a process hides its memory."""
    for line in (path / "status").read_text(errors="replace").splitlines():
        if line.startswith("Uid:"):
            return int(line.split()[1])
    return -1


def _session(pid: int) -> int | None:
    fields = _stat(pid)
    return None if fields is None else int(fields[SESSION_FIELD])


def _stat(pid: int) -> list[str] | None:
    """The fields behind the command's name, which may hold spaces itself; None of the dead."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if not fields or fields[0] in DEAD else fields
