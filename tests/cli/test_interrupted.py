"""Ctrl-C in the middle of a long command."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.waiting import HANG_SECONDS, until

WORKERS = 2
USER, SYSTEM = 11, 12  # behind the name in /proc/<pid>/stat


@pytest.mark.parametrize("after_work", [0.0, 0.5, 3.0])
def test_a_comparison_ends_at_once_and_without_a_traceback(after_work: float) -> None:
    """While its processes begin, import and simulate; to the end they would need many minutes."""
    words = f"compare --jobs 20000 --cluster 4x8 --workers {WORKERS} -r fifo,weave --seeds 0,1,2"
    command = subprocess.Popen(
        [sys.executable, "-m", "weft.cli.main", *words.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    until(lambda: len(_children(command.pid)) >= WORKERS, "processes of its own")
    until(lambda: _work(_children(command.pid)) >= after_work, "them to work")
    os.killpg(command.pid, signal.SIGINT)
    _, err = command.communicate(timeout=HANG_SECONDS)
    assert command.returncode == 130
    assert "Traceback" not in err
    assert "interrupted" in err


def _children(pid: int) -> list[str]:
    """Of the process's first thread, which begins them all."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _work(pids: list[str]) -> float:
    """Seconds of a processor that these have used together."""
    ticks = 0
    for pid in pids:
        with suppress(FileNotFoundError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[USER]) + int(fields[SYSTEM])
    return ticks / os.sysconf("SC_CLK_TCK")
