"""What the lines that a job has left prove: each step applied once, each sample used once."""

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from weft.train.data.order import SampleOrder

Line = dict[str, Any]


def read_lines(folder: Path, worker: int | str = "*") -> list[Line]:
    """All whole lines, of one worker or of all; a worker that was killed may leave half of one."""
    found: list[Line] = []
    for path in sorted(folder.glob(f"steps-{worker}.jsonl")):
        for text in path.read_text().splitlines():
            try:
                found.append(json.loads(text))
            except ValueError:
                continue
    return found


class NewestStep:
    """The newest step that any worker of a folder has applied; reads only what was added."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self._step = -1

    def __call__(self) -> int:
        for path in self._folder.glob("steps-*.jsonl"):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                whole, newline, _ = file.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(whole) + len(newline)
            for text in whole.splitlines():
                with suppress(ValueError):  # half a line of a worker that was killed
                    line = json.loads(text)
                    self._step = max(self._step, line["step"] if line.get("stepped") else -1)
        return self._step


def applied(lines: Iterable[Line]) -> dict[str, list[int]]:
    """The steps that each worker has applied, in order."""
    found: dict[str, list[int]] = {}
    for line in lines:
        if line.get("stepped"):
            found.setdefault(line["worker"], []).append(line["step"])
    return found


def samples(lines: Iterable[Line]) -> dict[int, list[int]]:
    """The samples of each step, over all workers of the epoch in which it was applied.

    What was taken for a step is written before the vote, so that also a worker that has died since
    has told what it put into the sum.
    """
    lines = list(lines)
    epochs: dict[int, set[int]] = {}
    for line in lines:
        if line.get("stepped"):
            epochs.setdefault(line["step"], set()).add(line["epoch"])
    found: dict[int, list[int]] = {}
    for step, seen in epochs.items():
        assert len(seen) == 1, f"step {step} was applied in the epochs {sorted(seen)}"
        found[step] = [
            sample
            for line in lines
            if line.get("of") == step and line["epoch"] in seen
            for sample in line["took"]
        ]
    return found


def in_order(total: int, *, batch: int, size: int, seed: int = 3) -> dict[int, list[int]]:
    """The samples that the steps of such a job have, whoever computes them."""
    order = SampleOrder(size, seed)
    return {step: sorted(order.slice(step * batch, (step + 1) * batch)) for step in range(total)}


def check_each_once(lines: Iterable[Line], *, total: int, batch: int = 16, size: int = 160) -> None:
    """No step is left out or applied twice, no sample is used twice in a pass or not at all."""
    lines = list(lines)
    for worker, steps in applied(lines).items():
        expected = list(range(steps[0], steps[0] + len(steps)))
        assert steps == expected, f"worker {worker} applied {steps}"
    taken = samples(lines)
    assert sorted(taken) == list(range(total))
    order = [sample for step in range(total) for sample in sorted(taken[step])]
    assert len(order) == total * batch, f"{len(order)} samples in {total} steps"
    for start in range(0, len(order) - size + 1, size):
        assert sorted(order[start : start + size]) == list(range(size))


def finals(lines: Iterable[Line]) -> list[Line]:
    """What the workers that came to the end have found there."""
    return [line for line in lines if line.get("final")]


def by_step(lines: list[Line]) -> dict[int, list[str]]:
    """The digests of all workers after each step."""
    found: dict[int, list[str]] = {}
    for line in lines:
        if line.get("stepped"):
            found.setdefault(line["step"], []).append(line["digest"])
    return found
