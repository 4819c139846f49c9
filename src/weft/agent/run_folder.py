"""What an agent keeps on its machine while its job lasts, and takes away when it is over.

A folder with the socket, the key, the card that drivers read, the logs and, at the end, a file that
tells how the job ended; and a folder in shared memory for snapshots. A lock that the kernel lets go
of with the process keeps a second agent out, and what an agent that was killed has left in shared
memory is taken away by the next one.
"""

import fcntl
import json
import re
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import IO, Final

from weft.agent.evidence import LOGS, forget
from weft.agent.outcome import OUTCOME, Ending
from weft.agent.wire.orders import CARD, HEAD, KEY, SOCKET
from weft.model.errors import WorldError

SHARED_MEMORY: Final = Path("/dev/shm")
SLOTS: Final = re.compile(r"weft-[0-9a-f]{16}")


class RunFolder:
    """The two folders of one agent."""

    def __init__(self, path: Path | None = None, token: str | None = None) -> None:
        self.path = path or Path(tempfile.mkdtemp(prefix="weft-"))
        self.slots = SHARED_MEMORY / f"weft-{secrets.token_hex(8)}"
        self.token = token or secrets.token_hex(32)
        self._card: IO[str] | None = None

    @property
    def socket(self) -> Path:
        return self.path / SOCKET

    @property
    def key(self) -> Path:
        return self.path / KEY

    @property
    def head(self) -> Path:
        """Tells workers who leads."""
        return self.path / HEAD

    def write_head(self, term: int, address: str) -> None:
        """Whole or not at all: workers may read it at any moment."""
        unfinished = self.head.with_suffix(".new")
        unfinished.write_text(json.dumps({"term": term, "address": address}))
        unfinished.rename(self.head)

    @property
    def logs(self) -> Path:
        return self.path / LOGS

    @property
    def fetched(self) -> Path:
        """Checkpoints that had to be fetched, while they may be begun from."""
        return self.path / "fetched"

    def open(self, job: str, incarnation: int) -> None:
        """Move in, unless another agent lives here."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.logs.mkdir(exist_ok=True)
        self._card = _locked(self.path / CARD)
        (self.path / OUTCOME).unlink(missing_ok=True)
        forget(self.path, self.logs)
        _clear_after_predecessor(self._card.read())
        shutil.rmtree(self.fetched, ignore_errors=True)
        self.slots.mkdir(mode=0o700)
        self._write_card({"job": job, "incarnation": incarnation, "slots": str(self.slots)})
        self._write_key()

    def close(self, ending: Ending | None = None) -> None:
        """Nothing is left but the card, the logs and how it ended."""
        if self._card is None:
            return
        if ending is not None:
            ending.write(self.path)
        shutil.rmtree(self.slots, ignore_errors=True)
        shutil.rmtree(self.fetched, ignore_errors=True)
        self.socket.unlink(missing_ok=True)
        self.key.unlink(missing_ok=True)
        self.head.unlink(missing_ok=True)
        self._card.close()
        self._card = None

    def _write_card(self, card: dict[str, object]) -> None:
        assert self._card is not None
        self._card.seek(0)
        self._card.truncate()
        json.dump(card, self._card)
        self._card.flush()

    def _write_key(self) -> None:
        self.key.unlink(missing_ok=True)
        self.key.touch(mode=0o600)
        self.key.write_text(self.token)
        self.key.chmod(0o400)


def _locked(path: Path) -> IO[str]:
    """The file, held by this process until it closes it or dies."""
    path.touch(mode=0o600)
    card = path.open("r+")
    try:
        fcntl.flock(card, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        card.close()
        raise WorldError(
            f"another agent works in {path.parent}", hint="give each agent a folder of its own"
        ) from error
    return card


def _clear_after_predecessor(card: str) -> None:
    """Only what looks like a folder of slots is taken away, whatever the card says."""
    try:
        name = Path(json.loads(card)["slots"]).name
    except (ValueError, KeyError, TypeError):
        return
    if SLOTS.fullmatch(name):
        shutil.rmtree(SHARED_MEMORY / name, ignore_errors=True)
