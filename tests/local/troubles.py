"""Surroundings that fail for real: little memory, a small disk, a service that is not there."""

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Final
from uuid import uuid4

MEMORY: Final = Path("/sys/fs/cgroup/memory")
MEBIBYTE: Final = 1 << 20
FULL: Final = Path("/dev/full")


@contextmanager
def a_memory_cgroup(mebibytes: int) -> Iterator[Path | None]:
    """One with so little memory; None where nobody lets us have one."""
    group = MEMORY / f"weft-test-{uuid4().hex[:8]}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(mebibytes * MEBIBYTE))
    except OSError:
        yield None
        return
    try:
        yield group
    finally:
        _empty(group)


def _empty(group: Path) -> None:
    for pid in (group / "cgroup.procs").read_text().split():
        with suppress(OSError):
            (MEMORY / "cgroup.procs").write_text(pid)
    with suppress(OSError):
        group.rmdir()


@contextmanager
def a_small_disk(folder: Path) -> Iterator[Path]:
    """A file on a disk of one mebibyte; where nobody lets us mount one, the kernel's own."""
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0777", "none", str(folder)]
    mounted = subprocess.run(mounting, check=False, capture_output=True).returncode == 0
    try:
        yield folder / "file" if mounted else FULL
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False)


class Service:
    """An HTTP server that is down until it is started."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}/shard"
        self._server: HTTPServer | None = None

    def start(self) -> None:
        self._server = HTTPServer(("127.0.0.1", self.port), _Answers)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"data")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def a_service() -> Iterator[Service]:
    service = Service()
    try:
        yield service
    finally:
        service.stop()
