"""Probes of a machine, again and again, for somebody who can only see whether a process is well.

On Kubernetes that is whether a pod is ready: a file says that all probes have passed. One that
fails ends the process with its words, and the next one is well once all of them pass again. So
nobody needs a right to tell of it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from weft.agent.probes.prober import LEAST_SECONDS, Prober

LAST_WORDS: Final = Path("/dev/termination-log")
FAILED_STATUS: Final = 1
MOST_WORDS: Final = 1_000


def watch(
    prober: Prober,
    well: Path,
    every_seconds: float,
    *,
    last_words: Path = LAST_WORDS,
    rest: Callable[[float], None] | None = None,
) -> int:
    """Until one fails, whoever asked for it; the status to end with."""
    well.unlink(missing_ok=True)
    while (found := prober.look(min(LEAST_SECONDS, every_seconds / 2))).passed:
        well.touch()
        (rest or prober.rest)(every_seconds)
    well.unlink(missing_ok=True)
    last_words.write_text(found.words[:MOST_WORDS])
    return FAILED_STATUS
