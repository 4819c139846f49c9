"""Lease servers as processes of a test."""

import subprocess
import sys
from pathlib import Path

from tests.waiting import until
from weft.agent.leases.company import SOCKET
from weft.agent.leases.server import LOCK


def started(folder: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "weft.agent.leases", str(folder)])


def serving(folder: Path, pid: int) -> None:
    def serves() -> bool:
        return (folder / SOCKET).exists() and (folder / LOCK).read_text() == str(pid)

    until(serves, f"process {pid} to serve")
