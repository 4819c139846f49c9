"""Lease servers as processes of a test."""

import subprocess
import sys
import time
from pathlib import Path

from weft.agent.leases.company import SOCKET
from weft.agent.leases.server import LOCK

PATIENCE_SECONDS = 20.0


def started(folder: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "weft.agent.leases", str(folder)])


def serving(folder: Path, pid: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if (folder / SOCKET).exists() and (folder / LOCK).read_text() == str(pid):
            return
        time.sleep(0.01)
    raise AssertionError(f"{pid} does not serve")
