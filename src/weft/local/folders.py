"""Where things lie, and how a daemon that may be root reads what lies in folders of users.

    <folder>/            whose daemon it is, 0755 if it serves others, else 0700
      weft.db            the store, 0600
      lock               held by the daemon that serves this folder
      jobs/              0711: nobody can list it
        <uid>/           the owner's, 0700
          checkpoints/   where the job file names no other place
          epoch-<n>/     card, socket, key, logs and last words of one agent
      parties/           0711
        <digest>/        where jobs of one owner that share slots meet, 0700

Below `jobs/<uid>` everything belongs to the job's owner, who may put anything there: a link to a
file of root's, a pipe that blocks, a terabyte. So the daemon writes nothing there as root, but to
cut logs, and opens only plain files of the owner's, without following links, up to a size.
"""

import os
import stat
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import IO, Final

from weft.agent.wire.orders import SOCKET
from weft.api.socket_file import LONGEST
from weft.local.record.entry import Entry, Owner
from weft.model.errors import WorldError

LOGS: Final = "logs"
OUTCOME: Final = "outcome.json"
TOKEN: Final = "started"
AGENT_LOG: Final = "agent.log"
MOST_BYTES: Final = 1 << 20
LONGEST_UID: Final = "0" * 16
LAST_EPOCH: Final = "epoch-99999"

FOLLOW_NOT: Final = os.O_NOFOLLOW | os.O_CLOEXEC
AS_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | FOLLOW_NOT
AS_FILE: Final = os.O_RDONLY | os.O_NONBLOCK | FOLLOW_NOT


class Folders:
    """The folders of one daemon."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = root / "weft.db"
        self.lock = root / "lock"
        self.jobs = root / "jobs"
        self.parties = root / "parties"

    def check_depth(self) -> None:
        """Refuse a folder so deep that no agent could listen in it."""
        deepest = self.jobs / LONGEST_UID / LAST_EPOCH / SOCKET
        spare = LONGEST - len(os.fsencode(deepest))
        if spare < 0:
            raise WorldError(
                f"{self.root} is {-spare} bytes too long: no socket fits below it",
                hint=f"choose a --folder of at most {len(os.fsencode(self.root)) + spare} bytes",
            )

    def open(self, *, for_all: bool) -> None:
        """Make what is missing."""
        self.root.mkdir(mode=0o755 if for_all else 0o700, parents=True, exist_ok=True)
        self.root.chmod(0o755 if for_all else 0o700)
        for place in (self.jobs, self.parties):
            place.mkdir(mode=0o711, exist_ok=True)
            place.chmod(0o711 if for_all else 0o700)

    def job(self, uid: str) -> Path:
        return self.jobs / uid

    def epoch(self, entry: Entry) -> Path:
        """The agent's folder of the present incarnation."""
        return self.job(entry.uid) / f"epoch-{entry.epoch}"

    def checkpoints(self, entry: Entry) -> Path:
        return self.job(entry.uid) / "checkpoints"

    def make_job(self, uid: str, owner: Owner) -> None:
        """The owner's folder, in a place where only the daemon can make one."""
        _make_for(owner, self.job(uid))

    def party(self, name: str) -> Path:
        """Where the members of a party meet."""
        return self.parties / blake2b(name.encode(), digest_size=8).hexdigest()

    def make_party(self, name: str, owner: Owner) -> Path:
        """All of its members are jobs of one owner."""
        path = self.party(name)
        _make_for(owner, path)
        return path

    def keep_parties(self, names: Iterable[str]) -> None:
        """Of others nothing is left."""
        kept = {self.party(name) for name in names}
        for path in self.parties.iterdir():
            if path not in kept:
                remove_tree(path)

    def remove_job(self, uid: str) -> None:
        """With everything below it."""
        remove_tree(self.job(uid))


def _make_for(owner: Owner, path: Path) -> None:
    path.mkdir(mode=0o700, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(path, owner.uid, owner.gid, follow_symlinks=False)


def remove_tree(path: Path) -> None:
    """With everything below it, however deep; links are removed, not followed.

    Left to a program that walks by handles: a function that calls itself does not come to the
    ground of folders that a user has nested by the thousand.
    """
    subprocess.run(["rm", "-rf", "--", str(path)], stderr=subprocess.DEVNULL, check=False)


@contextmanager
def folder_of(path: Path, *below: str) -> Iterator[int]:
    """A handle on a folder below `path`, which is the daemon's own to trust."""
    handle = os.open(path, AS_FOLDER)
    try:
        for name in below:
            inner = os.open(name, AS_FOLDER, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def open_file(folder: int, name: str, owner: Owner) -> IO[bytes]:
    """A plain file of the owner's, or an error."""
    handle = os.open(name, AS_FILE, dir_fd=folder)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != owner.uid or found.st_nlink > 1:
            raise WorldError(
                f"{name} is no plain file of {owner.user}'s",
                hint="files of a running job are not to be replaced",
            )
    except BaseException:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def read_file(folder: int, name: str, owner: Owner, most_bytes: int = MOST_BYTES) -> bytes:
    """Its first bytes; empty where there is no such file."""
    with suppress(FileNotFoundError), open_file(folder, name, owner) as file:
        return file.read(most_bytes)
    return b""


def names_in(folder: int) -> list[str]:
    return sorted(os.listdir(folder))
