"""Memory holds what it is given, and can be had."""

import os
import time
from dataclasses import dataclass
from typing import ClassVar

from weft.agent.probes.probe import Result, failed, measured

MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Memory:
    """So much of it, written and read once."""

    name: ClassVar[str] = "memory"
    mebibytes: int = 64
    least_gb_per_second: float = 0.05

    def run(self) -> Result:
        pattern = os.urandom(MEBIBYTE)
        began = time.monotonic()
        held = bytearray(self.mebibytes * MEBIBYTE)
        view = memoryview(held)
        for number in range(self.mebibytes):
            view[number * MEBIBYTE : (number + 1) * MEBIBYTE] = pattern
        for number in range(self.mebibytes):
            if held[number * MEBIBYTE : (number + 1) * MEBIBYTE] != pattern:
                return failed(self.name, f"mebibyte {number} is not what was written")
        seconds = max(time.monotonic() - began, 1e-9)
        moved = 2 * self.mebibytes * MEBIBYTE / 1e9
        return measured(self.name, moved / seconds, "GB/s", self.least_gb_per_second)
