"""What is written is read again, and neither takes for ever."""

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from weft.agent.probes.probe import Result, failed, measured

MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Disk:
    """Below this folder, with so much; the file is gone afterwards."""

    name: ClassVar[str] = "disk"
    folder: Path
    mebibytes: int = 32
    least_mb_per_second: float = 10.0

    def run(self) -> Result:
        block = os.urandom(MEBIBYTE)
        began = time.monotonic()
        with tempfile.TemporaryFile(dir=self.folder) as file:
            for _ in range(self.mebibytes):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
            seconds = time.monotonic() - began
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            file.seek(0)
            for number in range(self.mebibytes):
                if file.read(MEBIBYTE) != block:
                    return failed(self.name, f"mebibyte {number} is not what was written")
        rate = self.mebibytes * MEBIBYTE / 1e6 / max(seconds, 1e-9)
        return measured(self.name, rate, "MB/s", self.least_mb_per_second)
