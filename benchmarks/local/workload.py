"""Jobs as they are submitted to this machine, and what became of them."""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.local.daemons import Lab, a_lab, wait_until
from weft.api.backend import Origin, Selection
from weft.local.agents.launch import AGENT
from weft.local.record.entry import Happening

ROOT: Final = Path(__file__).parents[2]
SCRIPT: Final = Path(__file__).with_name("job.py")
SLOTS: Final = 4
RECIPE: Final = "maxmin(spacing=1.0, hold=10.0, min_run=60.0)"
LATENCY_SECONDS: Final = 0.02
PATIENCE_SECONDS: Final = 900.0


@dataclass(frozen=True, slots=True)
class Planned:
    """One job of a workload."""

    name: str
    at_seconds: float
    gpus: int | str
    steps: int

    @property
    def range(self) -> tuple[int, int]:
        least, _, most = str(self.gpus).partition("..")
        return int(least), int(most or least)


@dataclass(frozen=True, slots=True)
class Lived:
    """What became of it, in seconds since the first submission."""

    submitted: float
    ended: float
    history: tuple[Happening, ...] = ()
    first_step: float = 0.0
    last_step: float = 0.0

    @property
    def jct_seconds(self) -> float:
        return self.ended - self.submitted


# About as much as four slots can take, in widths whose start two cores can bear.
FULL: Final = (
    Planned("a", 0.0, "1..2", 400),
    Planned("b", 12.0, "1..2", 300),
    Planned("c", 25.0, 1, 200),
    Planned("d", 40.0, "1..2", 260),
    Planned("e", 55.0, 1, 160),
    Planned("f", 70.0, "1..2", 300),
    Planned("g", 85.0, 1, 120),
    Planned("h", 100.0, "1..2", 240),
    Planned("i", 115.0, 1, 180),
    Planned("j", 130.0, "1..2", 200),
)
SHORT: Final = FULL[:4]


def play(jobs: Sequence[Planned], recipe: str = RECIPE) -> Mapping[str, Lived]:
    """Submit each at its time, and wait until all have ended."""
    with a_lab(slots=SLOTS, recipe=recipe, agent=AGENT) as lab:
        lab.start()
        began = time.monotonic()
        for job in jobs:
            time.sleep(max(began + job.at_seconds - time.monotonic(), 0.0))
            submit(lab, job)
        wait_until(lambda: all_over(lab), "all to end", lab.log, PATIENCE_SECONDS)
        lab.stop()
        return dict(_lives(lab, jobs))


def submit(lab: Lab, job: Planned) -> None:
    words = f"exec {sys.executable} {SCRIPT} --steps={job.steps} --latency={LATENCY_SECONDS}"
    origin = Origin("/tmp", {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT / "src")})
    spec = {"run": words, "resources": {"gpus": job.gpus}}
    lab.client.submit(spec, job.name, origin=origin)


def all_over(lab: Lab) -> bool:
    lines = lab.client.jobs(Selection()).jobs
    failed = [f"{line.name}: {line.message}" for line in lines if line.state == "Failed"]
    assert not failed, failed
    return all(line.finished for line in lines)


def _lives(lab: Lab, jobs: Sequence[Planned]) -> Iterator[tuple[str, Lived]]:
    begin = lab.history(jobs[0].name)[0].at
    for job in jobs:
        history = tuple(lab.history(job.name))
        first, last = _steps(lab, job.name)
        ended = next(one.at for one in history if one.what == "Ended")
        yield (
            job.name,
            Lived(history[0].at - begin, ended - begin, history, first - begin, last - begin),
        )


def _steps(lab: Lab, name: str) -> tuple[float, float]:
    """When the first and the last step were done, as the workers told."""
    logs = lab.folder.glob(f"jobs/{lab.entry(name).uid}/epoch-*/logs/worker-*.log")
    lines = [line for log in logs for line in log.read_text().splitlines()]
    told = [json.loads(line) for line in lines if line.startswith('{"first"')]
    return min(one["first"] for one in told), max(one["last"] for one in told)
