"""The fence: which incarnation of a job may write below a root, and the lock that makes it hold.

An incarnation that was believed dead may come back: a machine that was cut off, a process that was
stopped for a minute. Each writer therefore raises the fence to its own number first, and looks at
it again, under the same lock, in the instant in which its checkpoint becomes visible. A number once
raised never falls.

A fence that cannot be read stands in nobody's way: it is rebuilt by the next writer from what the
folders are called.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from typing import Final

from weft.agent.checkpoint import beneath
from weft.agent.checkpoint.document import Fields, seal, unseal
from weft.agent.checkpoint.errors import VaultError, WriterFenced
from weft.agent.checkpoint.manifest import MOST_TEXT

NAME: Final = "fence.json"
LOCK: Final = "lock"
PATIENCE_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.005
_NEXT: Final = "fence.json.next"
_MOST_BYTES: Final = 4096


@contextlib.contextmanager
def locked(root: int) -> Iterator[None]:
    """Alone below this root, for as short as possible.

    A holder that was stopped in the middle must not stop all others for ever, so the wait is
    bounded.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(LOCK, flags, 0o600, dir_fd=root)
    try:
        _take(descriptor, time.monotonic() + PATIENCE_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, deadline: float) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                raise VaultError(
                    f"the lock has been held for {PATIENCE_SECONDS:.0f} seconds",
                    hint="an agent of this job hangs; end it",
                ) from error
        time.sleep(POLL_SECONDS)


def read(root: int, job: str) -> int | None:
    """The number of the newest incarnation that has been here; None where none has."""
    found = told(root)
    if found is None:
        return None
    owner, incarnation = found
    if owner != job:
        raise VaultError(
            f"these checkpoints belong to the job {owner!r}",
            hint="give each job a folder of its own",
        )
    return incarnation


def told(root: int) -> tuple[str, int] | None:
    """Whose checkpoints these are, and the newest incarnation that has been here."""
    if not os.access(NAME, os.F_OK, dir_fd=root, follow_symlinks=False):
        return None
    fields = Fields(unseal(beneath.read(NAME, root, most=_MOST_BYTES), NAME), NAME)
    fields.only("job", "incarnation")
    return fields.text("job", most=MOST_TEXT), fields.count("incarnation")


def advance(root: int, job: str, incarnation: int, *, present: int) -> None:
    """Compare and set, under the lock: raise the fence, or refuse a writer that came too late."""
    if present > incarnation:
        raise WriterFenced(
            f"incarnation {incarnation} of {job} may not write: {present} has been here",
            hint="this process belongs to an older start of the job; end it",
        )
    if present == incarnation:
        return
    beneath.write(_NEXT, root, seal({"job": job, "incarnation": incarnation}))
    os.rename(_NEXT, NAME, src_dir_fd=root, dst_dir_fd=root)
    os.fsync(root)
