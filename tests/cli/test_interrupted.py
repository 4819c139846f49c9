"""Ctrl-C in the middle of a long command."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.local.daemons import wait_until

PROMPT_SECONDS = 15.0
WORKERS = 2


@pytest.mark.parametrize("after_seconds", [0.0, 0.5, 3.0])
def test_a_comparison_ends_at_once_and_without_a_traceback(after_seconds: float) -> None:
    words = f"compare --jobs 4000 --cluster 4x8 --workers {WORKERS} -r fifo,weave --seeds 0,1,2"
    command = subprocess.Popen(
        [sys.executable, "-m", "weft.cli.main", *words.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    wait_until(lambda: len(_children(command.pid)) >= WORKERS, "processes of its own")
    time.sleep(after_seconds)
    os.killpg(command.pid, signal.SIGINT)
    pressed = time.monotonic()
    _, err = command.communicate(timeout=60.0)
    assert time.monotonic() - pressed < PROMPT_SECONDS
    assert command.returncode == 130
    assert "Traceback" not in err
    assert "interrupted" in err


def _children(pid: int) -> list[str]:
    """Of the process's first thread, which begins them all."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
