"""How fast two machines sum gradients together: torch's own collectives, on gloo or NCCL.

This side only starts the processes, for the agent never imports torch. Ranks on other machines are
started there, with the same meeting place.
"""

import importlib.util
import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

from weft.agent.probes.probe import Result, failed, measured

MODULE = "weft.train.bandwidth"
LIMIT_SECONDS = 50.0


@dataclass(frozen=True, slots=True)
class Pair:
    """`ranks` are those that run here, of `width`; none given means both of two, on a free port."""

    name: ClassVar[str] = "pair"
    host: str = "127.0.0.1"
    port: int = 0
    ranks: tuple[int, ...] = (0, 1)
    width: int = 2
    backend: str = "gloo"
    least_gb_per_second: float = 0.01

    @staticmethod
    def is_here() -> bool:
        """Where there is no torch there is nothing to try."""
        return importlib.util.find_spec("torch") is not None

    def run(self) -> Result:
        port = self.port or _free_port()
        started = [self._started(rank, port) for rank in self.ranks]
        try:
            told = [process.communicate(timeout=LIMIT_SECONDS) for process in started]
        finally:
            for process in started:
                process.kill()
        for process, (_, errors) in zip(started, told, strict=True):
            if process.returncode:
                said = errors.strip().splitlines()
                return failed(self.name, said[-1][:200] if said else "a rank failed")
        slowest = min(float(json.loads(output)["gb_per_second"]) for output, _ in told)
        return measured(self.name, slowest, "GB/s", self.least_gb_per_second)

    def _started(self, rank: int, port: int) -> "subprocess.Popen[str]":
        told = {
            "MASTER_ADDR": self.host,
            "MASTER_PORT": str(port),
            "RANK": str(rank),
            "WORLD_SIZE": str(self.width),
            "OMP_NUM_THREADS": "1",
        }
        return subprocess.Popen(
            [sys.executable, "-m", MODULE, self.backend],
            env={**os.environ, **told},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
