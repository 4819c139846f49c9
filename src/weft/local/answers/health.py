"""`weft doctor` on one machine: what could go wrong, looked at before it does."""

import os
import shutil
import sys
from pathlib import Path
from typing import Final

from weft.agent.run_folder import SHARED_MEMORY
from weft.local.agents.cgroups import Cgroups
from weft.local.agents.launch import BIRTH
from weft.local.folders import Folders
from weft.local.machine.machine import Machine
from weft.view.health import Finding, Verdict

LOW_BYTES: Final = 1 << 30
GIB: Final = 1 << 30
OTHERS_MAY_ENTER: Final = 0o001


def findings(
    folders: Folders, machine: Machine, cgroups: Cgroups | None = None
) -> tuple[Finding, ...]:
    """One line for each thing that was looked at."""
    return (
        _machine(machine),
        _room("store", folders.root),
        _room("shared memory", SHARED_MEMORY),
        _bounds(cgroups),
        _users(),
    )


def _machine(machine: Machine) -> Finding:
    slots = len(machine.slots)
    if machine.has_gpus:
        return Finding("GPUs", Verdict.OK, f"{slots} {machine.gpu_type} on {machine.name}")
    return Finding(
        "GPUs",
        Verdict.WARN,
        f"no GPUs on {machine.name}: {slots} slots stand for them",
        "none is needed; nvidia-smi tells what the driver sees",
    )


def _bounds(cgroups: Cgroups | None) -> Finding:
    """What holds a job that does not behave."""
    if cgroups is None:
        return Finding(
            "cgroups",
            Verdict.WARN,
            "none: processes that hide are not found, and memory is booked but not enforced",
            "run the daemon as a service with Delegate=yes, or in a container, with cgroup v2",
        )
    if not cgroups.bounds_memory:
        return Finding(
            "cgroups",
            Verdict.WARN,
            "they hold every process of a job, but memory is booked and not enforced",
            "the service needs DelegateSubgroup=weft-daemon, and memory to be in cgroup v2",
        )
    return Finding("cgroups", Verdict.OK, "they hold every process of a job, and its memory")


def _room(check: str, folder: Path) -> Finding:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding(check, Verdict.FAIL, f"{folder}: {error.strerror}", "mount it")
    text = f"{free / GIB:.1f} GiB free in {folder}"
    if free < LOW_BYTES:
        return Finding(check, Verdict.WARN, text, "make room: a full disk stops new jobs")
    return Finding(check, Verdict.OK, text)


def _users() -> Finding:
    """Jobs of others can be started only where they can read Weft and its Python."""
    if os.geteuid() != 0:
        return Finding("users", Verdict.OK, "serves you alone: only root can run jobs of others")
    for path in (BIRTH, Path(sys.executable)):
        closed = _closed(path)
        if closed is not None:
            return Finding(
                "users",
                Verdict.FAIL,
                f"others cannot enter {closed}, where {path.name} lies",
                "install Weft where everybody can read it, such as below /opt",
            )
    return Finding("users", Verdict.OK, "serves every user of this machine")


def _closed(path: Path) -> Path | None:
    return next((p for p in path.parents if not p.stat().st_mode & OTHERS_MAY_ENTER), None)
