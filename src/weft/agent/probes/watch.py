"""Probes of a machine, again and again, for somebody who can only see whether a process is well.

On Kubernetes that is whether a pod is ready: a file says that all probes have passed. One that
fails ends the process with its words, and the next one is well once all of them pass again. So
nobody needs a right to tell of it.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from weft.agent.probes.probe import Result

LAST_WORDS: Final = Path("/dev/termination-log")
FAILED_STATUS: Final = 1
MOST_WORDS: Final = 1_000


def watch(
    probing: Callable[[], Sequence[Result]],
    well: Path,
    every_seconds: float,
    *,
    last_words: Path = LAST_WORDS,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Until one fails; the status to end with."""
    well.unlink(missing_ok=True)
    while not (failed := [one.words for one in probing() if not one.passed]):
        well.touch()
        sleep(every_seconds)
    well.unlink(missing_ok=True)
    last_words.write_text("; ".join(failed)[:MOST_WORDS])
    return FAILED_STATUS
