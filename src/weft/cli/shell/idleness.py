"""When a session is idle: nobody types, nothing is printed, and no process of it works."""

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
WARNING_SECONDS: Final = 60.0
BUSY_SHARE: Final = 0.05  # of one processor: more is work, less is a prompt that redraws itself
SESSION_FIELD, USER_FIELD, SYSTEM_FIELD = 3, 11, 12  # behind the name in /proc/<pid>/stat


@dataclass(slots=True)
class Idleness:
    """Counts from the last sign of life; `leader` is the process whose session it is."""

    limit_seconds: float
    leader: int
    since: float
    warned: bool = False
    _looked: tuple[float, float] = field(default=(0.0, 0.0))

    @property
    def warning_seconds(self) -> float:
        return min(WARNING_SECONDS, self.limit_seconds / 4)

    def touch(self, now: float) -> None:
        self.since, self.warned = now, False

    def look(self, now: float) -> None:
        """Whether its processes have worked since the last look."""
        before, used_before = self._looked
        used = processor_seconds(self.leader)
        self._looked = now, used
        if before and used - used_before > BUSY_SHARE * (now - before):
            self.touch(now)

    def left(self, now: float) -> float:
        return self.limit_seconds - (now - self.since)

    def warns(self, now: float) -> bool:
        """Once, some time before the end."""
        if self.warned or self.left(now) > self.warning_seconds:
            return False
        self.warned = True
        return True


def processor_seconds(session: int) -> float:
    """What the living processes of a session have used."""
    ticks = 0
    for path in PROC.glob("[0-9]*/stat"):
        with suppress(OSError, IndexError, ValueError):
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[SESSION_FIELD]) == session:
                ticks += int(fields[USER_FIELD]) + int(fields[SYSTEM_FIELD])
    return ticks / os.sysconf("SC_CLK_TCK")
