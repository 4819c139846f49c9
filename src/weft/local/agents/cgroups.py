"""One cgroup for each incarnation, where the machine lets the daemon have some.

A mark in the environment finds whoever did not mean to hide. A process that clears its environment
and leaves its session would keep its GPUs; out of a cgroup nobody gets without root. Where the
daemon may have the memory controller too, what is booked is what a job can use.

Only cgroup v2, and only where it is ours: in the root, as in a container, or where systemd says
that it delegates (`Delegate=yes`). Controllers are handed on only where the daemon itself is in the
root or in a leaf, for systemd could not start it again in a cgroup that hands them on. Elsewhere
everything goes on as without.
"""

import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from weft.agent.workers.memory_events import count_in

MOUNTS: Final = Path("/proc/self/mounts")
OWN: Final = Path("/proc/self/cgroup")
KIND: Final = "cgroup2"
MEMORY: Final = "memory"
DELEGATED: Final = ("trusted.delegate", "user.delegate")
DAEMON: Final = "weft-daemon"  # where the unit has systemd put it (DelegateSubgroup=)
GIB: Final = 1 << 30

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cgroup:
    """Of one incarnation; it may not be there."""

    path: Path

    def take_in(self, pid: int) -> bool:
        """Make it and move a process there, with all that it will start; False if that failed."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            log.warning("%s: %s: processes that escape are not found", self.path, error.strerror)
            return False
        return True

    def bound(self, memory_gib: float) -> None:
        """What it can use at most; 0 is for a job that booked none."""
        limit = str(int(memory_gib * GIB)) if memory_gib else "max"
        with suppress(OSError):
            (self.path / "memory.max").write_text(limit)

    @property
    def processes(self) -> tuple[int, ...]:
        """All in it and below it, for its owner's programs may have made some of their own."""
        found: list[int] = []
        for folder, _, _ in os.walk(self.path):
            with suppress(OSError):
                found += map(int, (Path(folder) / "cgroup.procs").read_text().split())
        return tuple(found)

    @property
    def kills(self) -> int:
        """How many the kernel has killed in it because it was out of memory."""
        return count_in(self.path / "memory.events") or 0

    def kill(self) -> None:
        """All at once, so that nobody can outrun it by forking."""
        with suppress(OSError):
            (self.path / "cgroup.kill").write_text("1")

    def remove(self) -> None:
        """Once nobody is in it; a folder with somebody in it stays."""
        for folder, _, _ in os.walk(self.path, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)


@dataclass(frozen=True, slots=True)
class Cgroups:
    """Those of one daemon."""

    root: Path
    bounds_memory: bool = False

    def of(self, name: str) -> Cgroup:
        return Cgroup(self.root / name.replace(":", "-"))

    def remove(self) -> None:
        """All that nobody is in; a daemon that comes back makes its own again."""
        Cgroup(self.root).remove()


def cgroups_of(daemon: str, *, mounts: Path = MOUNTS, own: Path = OWN) -> Cgroups | None:
    """What this daemon may have; None where there is nothing to be had."""
    try:
        tree, place = _tree(mounts), _place(own)
    except OSError:
        return None
    if tree is None or place is None:
        return None
    in_a_leaf = place.name == DAEMON
    home = tree / (place.parent if in_a_leaf else place)
    if home != tree and not _is_delegated(home):
        return None
    root = home / f"weft-{daemon}"
    try:
        root.mkdir(exist_ok=True)
    except OSError:
        return None
    apart = in_a_leaf or home == tree
    return Cgroups(root, apart and _hands_on_memory(home) and _hands_on_memory(root))


def _tree(mounts: Path) -> Path | None:
    """Where cgroup v2 is mounted."""
    lines = (line.split() for line in mounts.read_text().splitlines())
    return next((Path(fields[1]) for fields in lines if fields[2:3] == [KIND]), None)


def _place(own: Path) -> PurePath | None:
    """Where this process is in the tree, without the first slash."""
    lines = own.read_text().splitlines()
    return next((PurePath(line[4:]) for line in lines if line.startswith("0::/")), None)


def _is_delegated(folder: Path) -> bool:
    for name in DELEGATED:
        with suppress(OSError):
            if os.getxattr(folder, name) == b"1":
                return True
    return False


def _hands_on_memory(folder: Path) -> bool:
    """Whether what is below may bound its memory."""
    control = folder / "cgroup.subtree_control"
    try:
        if MEMORY not in (folder / "cgroup.controllers").read_text().split():
            return False
        if MEMORY not in control.read_text().split():
            control.write_text(f"+{MEMORY}")
    except OSError:
        return False
    return True
