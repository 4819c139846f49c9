"""How long a person waits for the command line to begin.

Processor time of whole processes, each command run in turn with the bare interpreter, because the
machine may be busy: the median of the quotients is told, with the smallest and the largest. A
daemon in this process serves the list; its own processor time is not counted.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.row import Row, told
from tests.api.memory import a_running_job
from tests.api.served import serving
from weft.api.backend import JobKey
from weft.api.peer import user_name

RUNS, SHORT_RUNS = 15, 3
COMMANDS = {
    "weft --help": ("-m", "weft.cli.main", "--help"),
    "weft spec explain": ("-m", "weft.cli.main", "spec", "explain"),
    "weft ls": ("-m", "weft.cli.main", "ls"),
}
BARE = ("-c", "pass")


def rows(traces: Path | None, *, short: bool) -> Iterator[Row]:
    """A quotient for each command."""
    job = a_running_job(JobKey(user_name(os.geteuid()), "job"))
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder) / "weft.sock"
        environment = {**os.environ, "COLUMNS": "80", "WEFT_CONTEXT": "local"}
        environment["WEFT_LOCAL_SOCKET"] = str(socket)
        with serving(socket, job):
            for name, words in COMMANDS.items():
                yield _row(name, words, environment, SHORT_RUNS if short else RUNS)


def _row(name: str, words: tuple[str, ...], environment: dict[str, str], runs: int) -> Row:
    pairs = [(_seconds(words, environment), _seconds(BARE, environment)) for _ in range(runs)]
    quotients = [ours / bare for ours, bare in pairs]
    sides = [1000 * statistics.median(side) for side in zip(*pairs, strict=True)]
    return told(
        f"`{name}` over `python -c pass`",
        round(statistics.median(quotients), 1),
        "×",
        peer="least and most; processor time of both",
        peer_value=(
            f"{min(quotients):.1f} to {max(quotients):.1f}; "
            + " / ".join(f"{milliseconds:.0f} ms" for milliseconds in sides)
        ),
    )


def _seconds(words: tuple[str, ...], environment: dict[str, str]) -> float:
    """Of the child that was waited for; the daemon is a thread of this process."""
    before = _spent()
    subprocess.run([sys.executable, *words], check=True, capture_output=True, env=environment)
    return _spent() - before


def _spent() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
