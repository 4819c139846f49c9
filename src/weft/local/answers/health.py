"""`weft doctor` on one machine: what could go wrong, looked at before it does."""

import os
import shutil
import time
from pathlib import Path
from threading import Lock
from typing import Final

from weft.agent.run_folder import SHARED_MEMORY
from weft.local.agents.account import Account, ordinary_account
from weft.local.agents.cgroups import Cgroups
from weft.local.agents.launch import Launcher
from weft.local.folders import Folders
from weft.local.machine.machine import Machine
from weft.local.record.entry import Owner
from weft.model.errors import WorldError
from weft.view.health import Finding, Verdict

LOW_BYTES: Final = 1 << 30
GIB: Final = 1 << 30
USERS: Final = "users"
VALID_SECONDS: Final = 60.0
ASK_ADMINISTRATOR: Final = "ask the administrator to "


class UserCheck:
    """Whether agents can start under an account, tried by starting one that ends at once.

    Root asks on behalf of every other user, so an account without any rights is tried. `group` is
    the one that may use the daemon. A success is not tried again for a while.
    """

    def __init__(self, launcher: Launcher, group: str | None = None) -> None:
        self._launcher = launcher
        self._group = group
        self._turn = Lock()
        self._succeeded: dict[int, float] = {}

    def finding(self, owner: Owner) -> Finding:
        """What `owner` is told; it takes as long as Python takes to start."""
        others = os.geteuid() == 0 and owner.uid == 0
        account = ordinary_account(self._group) if others else Account.of(owner)
        try:
            with self._turn:
                self._check(account)
        except WorldError as error:
            who = "jobs of other users: " if others else ""
            hint = error.hint.removeprefix(ASK_ADMINISTRATOR) if others else error.hint
            return Finding(USERS, Verdict.FAIL, f"{who}{error}", hint)
        if os.geteuid() != 0:
            return Finding(USERS, Verdict.OK, "serves you alone: only root can run jobs of others")
        return Finding(USERS, Verdict.OK, "serves every user of this machine")

    def _check(self, account: Account) -> None:
        now, uid = time.monotonic(), account.owner.uid
        if now - self._succeeded.get(uid, float("-inf")) < VALID_SECONDS:
            return
        self._launcher.check(account)
        self._succeeded[uid] = now


def findings(
    folders: Folders, machine: Machine, users: Finding, cgroups: Cgroups | None = None
) -> tuple[Finding, ...]:
    """One line for each thing that was looked at."""
    return (
        _machine(machine),
        _room("store", folders.root),
        _room("shared memory", SHARED_MEMORY),
        _bounds(cgroups),
        users,
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
