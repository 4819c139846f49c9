"""Bytes that go out through the machine's own network come in again, all of them, and fast."""

import os
import socket
import threading
import time
from dataclasses import dataclass
from hashlib import blake2b
from typing import ClassVar

from weft.agent.probes.probe import Result, failed, measured

MEBIBYTE = 1 << 20
LIMIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Loopback:
    """Through TCP on the loopback device."""

    name: ClassVar[str] = "loopback"
    mebibytes: int = 64
    least_gb_per_second: float = 0.01

    def run(self) -> Result:
        block = os.urandom(MEBIBYTE)
        wanted = blake2b()
        for _ in range(self.mebibytes):
            wanted.update(block)
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(LIMIT_SECONDS)
            sender = threading.Thread(
                target=_send, args=(server.getsockname(), block, self.mebibytes), daemon=True
            )
            began = time.monotonic()
            sender.start()
            got = _received(server)
            seconds = max(time.monotonic() - began, 1e-9)
        if got != wanted.digest():
            return failed(self.name, "what came in is not what went out")
        rate = self.mebibytes * MEBIBYTE / 1e9 / seconds
        return measured(self.name, rate, "GB/s", self.least_gb_per_second)


def _send(address: tuple[str, int], block: bytes, times: int) -> None:
    with socket.create_connection(address, timeout=LIMIT_SECONDS) as line:
        for _ in range(times):
            line.sendall(block)


def _received(server: socket.socket) -> bytes:
    found = blake2b()
    line, _ = server.accept()
    with line:
        line.settimeout(LIMIT_SECONDS)
        while block := line.recv(MEBIBYTE):
            found.update(block)
    return found.digest()
