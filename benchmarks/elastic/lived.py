"""Four training jobs of different scaling on this machine's slots, and what became of them.

How a job scales is its own choice (`benchmarks.elastic.jobs.mixed`), because two cores cannot show
it by computing; everything else is real: agents, workers, resizes, gradients, and a brain that
knows nothing of the jobs but what they measure.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.elastic.foretold import Foretold, foretold
from tests.local.daemons import Lab, a_lab, wait_until
from weft.api.backend import Origin, Selection
from weft.local.agents.launch import AGENT

ROOT: Final = Path(__file__).parents[2]
SCRIPT: Final = Path(__file__).parent / "jobs" / "mixed.py"
BATCH: Final = 12
SLOTS: Final = 4
PATIENCE_SECONDS: Final = 600.0
FEWEST_STEPS: Final = 12  # the first four after a change are not counted, and it takes two seconds


@dataclass(frozen=True, slots=True)
class Planned:
    """One job: how its step time is made up, in seconds, and when it comes."""

    name: str
    serial: float
    sample: float
    peer: float
    at_seconds: float
    steps: int

    def rate(self, width: int) -> float:
        """Steps per second, as it was told to scale."""
        return 1.0 / (self.serial + self.sample * BATCH / width + self.peer * (width - 1))

    @property
    def words(self) -> str:
        knobs = f"--serial={self.serial} --sample={self.sample} --peer={self.peer}"
        return f"exec {sys.executable} {SCRIPT} --steps={self.steps} {knobs}"


@dataclass(frozen=True, slots=True)
class Stepped:
    """One step that counts: how many trained, and when it was done."""

    number: int
    width: int
    at: float


@dataclass(frozen=True, slots=True)
class Lived:
    """What became of a job, in seconds since the first submission."""

    submitted: float
    ended: float
    starts: int
    steps: tuple[Stepped, ...]

    @property
    def jct_seconds(self) -> float:
        return self.ended - self.submitted

    @property
    def pauses(self) -> tuple[float, ...]:
        """At each change of the width: how much longer than usual until the next step.

        Usual is what a step took before, or after where that is longer.
        """
        return tuple(
            max(later.at - step.at - self._usual_seconds(step.width, later.width), 0.0)
            for step, later in pairwise(self.steps)
            if step.width != later.width
        )

    @property
    def measured_widths(self) -> tuple[int, ...]:
        """Those at which it made more steps in a row than a measurement needs."""
        runs = [(width, len(list(run))) for width, run in groupby(s.width for s in self.steps)]
        return tuple(sorted({width for width, count in runs if count > FEWEST_STEPS}))

    def rate(self, width: int) -> float | None:
        """Steps per second at that width, by the middle of its step times."""
        times = self._step_seconds(width)
        return 1.0 / median(times) if times else None

    def width(self, at: float) -> int:
        """How many trained last before that."""
        return next((step.width for step in reversed(self.steps) if step.at <= at), 0)

    def _usual_seconds(self, *widths: int) -> float:
        return max((median(times) for w in widths if (times := self._step_seconds(w))), default=0.0)

    def _step_seconds(self, width: int) -> list[float]:
        return [
            later.at - step.at
            for step, later in pairwise(self.steps)
            if step.width == later.width == width
        ]


@dataclass(frozen=True, slots=True)
class Played:
    """All jobs, and what the brain's own rule said of their widths all the while."""

    lives: Mapping[str, Lived]
    foretold: Foretold

    @property
    def mean_jct_seconds(self) -> float:
        return sum(one.jct_seconds for one in self.lives.values()) / len(self.lives)


def play(jobs: Sequence[Planned], recipe: str, gpus: int | str) -> Played:
    """Submit each at its time, and wait until all have ended."""
    with a_lab(slots=SLOTS, recipe=recipe, agent=AGENT) as lab:
        lab.start()
        began = time.monotonic()
        for job in jobs:
            time.sleep(max(began + job.at_seconds - time.monotonic(), 0.0))
            origin = Origin("/tmp", {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT / "src")})
            spec = {"run": job.words, "resources": {"gpus": gpus}, "nproc_per_node": "gpu"}
            lab.client.submit(spec, job.name, origin=origin)
        wait_until(lambda: _all_over(lab), "all to end", lab.log, PATIENCE_SECONDS)
        lab.stop()
        begin = lab.history(jobs[0].name)[0].at
        lives = {job.name: _lived(lab, job.name, begin) for job in jobs}
        return Played(lives, foretold(lab.folder / "journal.jsonl", begin))


def _all_over(lab: Lab) -> bool:
    lines = lab.client.jobs(Selection()).jobs
    failed = [f"{line.name}: {line.message}" for line in lines if line.state == "Failed"]
    assert not failed, failed
    return all(line.finished for line in lines)


def _lived(lab: Lab, name: str, begin: float) -> Lived:
    history = lab.history(name)
    ended = next(one.at for one in history if one.what == "Ended")
    steps = sorted(_steps(lab, name, begin), key=lambda step: step.number)
    return Lived(history[0].at - begin, ended - begin, lab.entry(name).epoch, tuple(steps))


def _steps(lab: Lab, name: str, begin: float) -> Iterator[Stepped]:
    logs = lab.folder.glob(f"jobs/{lab.entry(name).uid}/epoch-*/logs/worker-*.log")
    for line in (line for log in logs for line in log.read_text().splitlines()):
        if line.startswith('{"step"'):
            told = json.loads(line)
            yield Stepped(told["step"], told["width"], told["at"] - begin)
