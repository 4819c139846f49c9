"""Every processor computes the same, and about as much as its neighbours.

One that was slowed down by heat or power is much slower than the others. Work is counted in time of
the processor itself, so that whoever else computes there changes nothing.
"""

import os
import time
from dataclasses import dataclass
from hashlib import blake2b
from statistics import median
from typing import ClassVar

from weft.agent.probes.probe import Result, failed, measured

ROUNDS = 200
BLOCK = bytes(4096)


@dataclass(frozen=True, slots=True)
class Cpu:
    """All that this process may use; the slowest as a share of the median."""

    name: ClassVar[str] = "cpu"
    most: int = 64
    least_share: float = 0.3

    def run(self) -> Result:
        usable = os.sched_getaffinity(0)
        speeds, sums = [], set()
        try:
            for number in sorted(usable)[: self.most]:
                os.sched_setaffinity(0, {number})
                speed, told = _computed()
                speeds.append(speed)
                sums.add(told)
        finally:
            os.sched_setaffinity(0, usable)
        if len(sums) > 1:
            return failed(self.name, "processors compute different results")
        share = min(speeds) / median(speeds)
        return measured(self.name, share, "of the median processor", self.least_share)


def _computed() -> tuple[float, bytes]:
    """Hashes in a second of this processor, and the last of them."""
    told = b""
    began = time.thread_time()
    for _ in range(ROUNDS):
        told = blake2b(BLOCK + told).digest()
    return ROUNDS / max(time.thread_time() - began, 1e-9), told
