"""torchrun's own elastic restart: a second node joins a job of one.

`TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1` because without it torch 2.13 hangs: the address of the first
rendezvous is not published again, and both nodes die after a minute. The wait for further nodes
once there is one (`last_call_timeout`) is shortened from 30 s to 1 s. The script restores no state,
so a real job would stand still for longer.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.runtime.job import END_SECONDS, JOBS, Size, python_path, say

LIMIT_SECONDS = 60.0
STEPS_BEFORE = 20
LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Torchrun:
    """Seconds from the start of the second node, and from the last step to the first anew."""

    started: float
    stood_still: float


def measure_torchrun(folder: Path, size: Size) -> Torchrun | str:
    """What it took, or in words why it did not come about."""
    say("torchrun, 1 → 2")
    folder.mkdir()
    port = _free_port()
    with _node(folder, size, port):
        if _wait(folder, lambda lines: _of_world(lines, 1)[STEPS_BEFORE:]) is None:
            return f"no step of one node in {LIMIT_SECONDS:.0f} s"
        started = time.monotonic()
        with _node(folder, size, port):
            found = _wait(folder, lambda lines: _of_world(lines, 2))
            if found is None:
                return f"no step of two nodes in {LIMIT_SECONDS:.0f} s"
    first = min(found, key=lambda line: line["ended"])["ended"]
    last = max(line["ended"] for line in _of_world(_lines(folder), 1))
    return Torchrun(first - started, first - last)


@contextmanager
def _node(folder: Path, size: Size, port: int) -> Iterator[None]:
    """One torchrun with one worker, and nothing of it afterwards."""
    words = [
        *("--nnodes", "1:2", "--nproc-per-node", "1", "--rdzv-backend", "c10d"),
        *("--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "bench"),
        *("--rdzv-conf", "last_call_timeout=1", "--local-addr", "127.0.0.1"),
        *(str(JOBS / "elastic.py"), *size.words()),
    ]
    variables = {
        "PYTHONPATH": python_path(),
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "OMP_NUM_THREADS": "1",
        "WEFT_BENCH_OUT": str(folder),
    }
    with (folder / "torchrun.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *words],
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            yield
        finally:
            _end(process, folder)


def _end(process: "subprocess.Popen[bytes]", folder: Path) -> None:
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for line in _lines(folder):
        if line["parent"] == process.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(line["pid"], signal.SIGKILL)


def _wait(folder: Path, wanted: Any) -> list[dict[str, Any]] | None:  # noqa: ANN401 - of lines
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        if found := wanted(_lines(folder)):
            return list(found)
        time.sleep(LOOK_SECONDS)
    return None


def _of_world(lines: list[dict[str, Any]], world: int) -> list[dict[str, Any]]:
    return [line for line in lines if line["world"] == world]


def _lines(folder: Path) -> list[dict[str, Any]]:
    found = []
    for path in sorted(folder.glob("steps-*.jsonl")):
        text = path.read_text()
        found += [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
