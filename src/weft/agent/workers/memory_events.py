"""How many processes the kernel has killed because this cgroup was out of memory.

In a container the cgroup is the container's. Elsewhere others may be in it, so a count is only
worth something beside a worker that was killed.
"""

from pathlib import Path
from typing import Final

OWN: Final = Path("/proc/self/cgroup")
ROOT: Final = Path("/sys/fs/cgroup")
KILLS: Final = "oom_kill"


def kills(own: Path = OWN, root: Path = ROOT) -> int:
    """Since the cgroup was made; 0 where nobody counts."""
    for line in _lines(own):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        below = path.lstrip("/")
        if not controllers:
            counts = (root / below / "memory.events", root / "memory.events")
        elif "memory" in controllers.split(","):
            tree = root / "memory"
            counts = (tree / below / "memory.oom_control", tree / "memory.oom_control")
        else:
            continue
        found = next((count for file in counts if (count := count_in(file)) is not None), None)
        if found is not None:
            return found
    return 0


def count_in(file: Path) -> int | None:
    """What such a file counts; None if there is none, or none that counts."""
    for line in _lines(file):
        name, _, count = line.partition(" ")
        if name == KILLS and count.strip().isdecimal():
            return int(count)
    return None


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(errors="replace").splitlines()
    except OSError:
        return []
