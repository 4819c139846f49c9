"""What a process has used: read from /proc, so that nobody who is measured has to help."""

import os
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
USER, SYSTEM = 11, 12  # fields of `stat`, counted behind the program's name


@dataclass(frozen=True, slots=True)
class Usage:
    """Processor time since its start, and the most memory it ever held."""

    cpu_seconds: float
    peak_mib: float

    def since(self, before: "Usage") -> "Usage":
        return Usage(self.cpu_seconds - before.cpu_seconds, self.peak_mib)


def usage_of(pid: int) -> Usage:
    """Of a process that lives."""
    folder = Path(f"/proc/{pid}")
    fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
    ticks = int(fields[USER]) + int(fields[SYSTEM])
    return Usage(ticks / TICKS_PER_SECOND, _kib(folder, "VmHWM") / 1024)


def resident_mib(pid: int) -> float:
    """What it holds now."""
    return _kib(Path(f"/proc/{pid}"), "VmRSS") / 1024


def _kib(folder: Path, name: str) -> int:
    for line in (folder / "status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    return 0
