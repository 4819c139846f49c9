"""Part g: one writer for each pod, on a store that gives each connection its part and no more.

The same state is saved by one writer and by two, each a process that takes its part into shared
memory and writes it when it is told to; the store lets each write so many bytes in a second. The
time is from the order until the checkpoint has its name. What was written by two is then read by
one, to the last byte.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.row import Row, at_most, exactly, told
from benchmarks.runtime.figures import MS
from benchmarks.runtime.job import FULL, JOBS, ROOT, SHORT, Size, python_path, say, scratch
from benchmarks.runtime.saving import SHARED_MEMORY
from weft.agent.checkpoint.vault import Vault
from weft.model.errors import WorldError

ROUNDS, SHORT_ROUNDS = 3, 1
RATE = 20e6
RATIO_BAR = 0.6
LIMIT_SECONDS = 120.0
MEGABYTE = 1e6


@dataclass(frozen=True, slots=True)
class Written:
    """Seconds to the checkpoint's name, the longest stop of a loop, bytes, and if it is sound."""

    seconds: float
    blocked: float
    bytes: int
    sound: bool


def rows(*, short: bool) -> Iterator[Row]:
    """By turns with one writer and with two."""
    size, rounds = (SHORT, SHORT_ROUNDS) if short else (FULL, ROUNDS)
    one, two = [], []
    with scratch() as folder:
        for number in range(rounds):
            say(f"writers, round {number + 1} of {rounds}")
            one.append(measure(folder / f"one-{number}", size, 1))
            two.append(measure(folder / f"two-{number}", size, 2))
    sound = sum(each.sound for each in (*one, *two))
    yield exactly("g: checkpoints of one writer and of two that are sound", sound, "", 2 * rounds)
    alone = median(each.seconds for each in one)
    name = f"g: {one[0].bytes / MEGABYTE:,.1f} MB by one writer at {RATE / MEGABYTE:g} MB/s each"
    yield told(name, alone, "s")
    together = median(each.seconds for each in two)
    yield told("g: … by two", together, "s", peer="one writer, s", peer_value=alone)
    ratio = median(b.seconds / a.seconds for a, b in zip(one, two, strict=True))
    if short:
        yield told("g: … two / one", ratio, "×")
    else:
        yield at_most("g: … two / one", ratio, "×", RATIO_BAR)
    blocked = [MS * median(each.blocked for each in group) for group in (two, one)]
    name = "g: the loop stands still for half of a snapshot"
    yield told(name, blocked[0], "ms", peer="all of it, ms", peer_value=blocked[1])


def measure(folder: Path, size: Size, writers: int) -> Written:
    """Start them, wait until all hold their part, and let them write at once."""
    folder.mkdir()
    with ExitStack() as held:
        slots = held.enter_context(TemporaryDirectory(prefix="weft-bench-", dir=SHARED_MEMORY))
        started = [
            held.enter_context(_writer(folder, Path(slots), part, writers, size))
            for part in range(writers)
        ]
        ready = [_said(process) for process in started]
        began = time.monotonic()
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        ends = [_said(process) for process in started]
    found = Vault(folder, "bench", 1).newest().checkpoint
    parts = len(found.manifest.shards) if found else 0
    whole = sum(end["whole"] for end in ends) == 1
    return Written(
        seconds=max(end["at"] for end in ends) - began,
        blocked=max(each["blocked"] for each in ready),
        bytes=sum(each["bytes"] for each in ready),
        sound=whole and parts == writers,
    )


def _writer(
    folder: Path, slots: Path, part: int, parts: int, size: Size
) -> "subprocess.Popen[str]":
    words = [str(folder), str(slots), str(part), str(parts), str(RATE), *size.words()]
    return subprocess.Popen(
        [sys.executable, str(JOBS / "writer.py"), *words],
        env={"PYTHONPATH": python_path(), "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _said(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise WorldError(f"a writer ended with {process.wait(LIMIT_SECONDS)}")
    found: dict[str, Any] = json.loads(line)
    return found
