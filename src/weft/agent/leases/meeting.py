"""A meeting place: a folder that comes with shared GPUs, and who else is there at this moment.

On one machine somebody tells an agent of company, and that it is alone again. In a pod nobody can:
what a pod is given it has from its start. So the claim by which pods share GPUs brings a folder,
and each agent keeps the lock of a file of its own there. Where another's lock is held, there is
company; the kernel lets go of it with the process.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from weft.agent.leases.company import Company

MEMBERS: Final = "members"
MOST_FILES: Final = 64  # who makes more of them is no agent


class Meeting:
    """The place `company` names, seen by one agent, from `enter` to `leave`."""

    def __init__(self, company: Company) -> None:
        self.company = company
        self._members = company.folder / MEMBERS
        self._own: Path = self._members / uuid4().hex
        self._lock: int | None = None

    def enter(self) -> None:
        """Others see this one from now on; raises where the folder cannot be written."""
        self._members.mkdir(mode=0o777, exist_ok=True)
        with suppress(PermissionError):  # another member made it
            self._members.chmod(0o1777)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._lock = os.open(self._own, flags, 0o644)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def others(self) -> bool:
        """Whether anybody else is there; files that nobody holds any more are removed."""
        names = sorted(os.listdir(self._members))[:MOST_FILES]
        return any(
            [self._is_held(self._members / name) for name in names if name != self._own.name]
        )

    def leave(self) -> None:
        if self._lock is not None:
            with suppress(OSError):
                self._own.unlink()
            os.close(self._lock)
            self._lock = None

    def _is_held(self, path: Path) -> bool:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            os.close(handle)
        with suppress(OSError):
            path.unlink()
        return False
