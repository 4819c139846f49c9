"""How long a person waits for the command line to begin.

Processor time of whole processes, each command run in turn with the bare interpreter, because the
machine may be busy: the median of the quotients is told.
"""

import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.row import Row, told

RUNS, SHORT_RUNS = 15, 3
COMMANDS = {
    "weft --help": ("-m", "weft.cli.main", "--help"),
    "weft spec explain": ("-m", "weft.cli.main", "spec", "explain"),
}
BARE = ("-c", "pass")


def rows(traces: Path | None, *, short: bool) -> Iterator[Row]:
    """A quotient for each command."""
    for name, words in COMMANDS.items():
        pairs = [(_seconds(words), _seconds(BARE)) for _ in range(SHORT_RUNS if short else RUNS)]
        quotient = statistics.median(ours / bare for ours, bare in pairs)
        yield told(
            f"`{name}` over `python -c pass`",
            round(quotient, 1),
            "×",
            peer="processor time of both",
            peer_value=" / ".join(
                f"{1000 * statistics.median(side):.0f} ms" for side in zip(*pairs, strict=True)
            ),
        )


def _seconds(words: tuple[str, ...]) -> float:
    before = _spent()
    environment = {**os.environ, "COLUMNS": "80"}
    subprocess.run([sys.executable, *words], check=True, capture_output=True, env=environment)
    return _spent() - before


def _spent() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
