"""A lab shares one machine: four users, twelve training jobs, four slots, and a daemon that dies.

Real users, real agents, real training. Whatever happens to the daemon, shares stay fair, widths
follow what is free, and every job ends with the loss that it has when nobody disturbs it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.local.daemons import Lab, a_lab, wait_until
from tests.local.users import ALICE, BOB, CAROL, DAVE, ROOT, as_user, needs_root
from weft.api.backend import Farewell, Origin, Selection
from weft.local.agents.launch import AGENT
from weft.local.record.entry import Happening
from weft.model.errors import WorldError

USERS: Final = (ALICE, BOB, CAROL, DAVE)
SLOTS: Final = 4
RECIPE: Final = "maxmin(spacing=0.5, hold=2.0, min_run=5.0)"
SCRIPT: Final = ROOT / "benchmarks" / "local" / "job.py"
KILLS_AFTER: Final = (1, 4, 8)  # jobs that have ended by then
PATIENCE_SECONDS: Final = 420.0


@dataclass(frozen=True, slots=True)
class Planned:
    """One job of the twelve."""

    user: int
    name: str
    gpus: str | int
    steps: int
    seed: int

    @property
    def kind(self) -> tuple[int, int]:
        """Jobs of one kind train the same."""
        return self.seed, self.steps

    @property
    def arguments(self) -> list[str]:
        return [f"--seed={self.seed}", f"--steps={self.steps}"]


LONG: Final = Planned(ALICE, "long", "1..3", 200, 1)
# Who comes when: the next as soon as the long job can be resized, the others when it has been.
STAGES: Final = (
    (LONG, Planned(BOB, "first", 1, 40, 2)),
    (Planned(CAROL, "first", 1, 40, 2),),
    (
        Planned(DAVE, "first", 1, 40, 2),
        *(Planned(user, "second", "1..2", 40, 2) for user in USERS),
        *(Planned(user, "third", "1..4", 40, 2) for user in USERS),
    ),
)
PLAN: Final = tuple(job for stage in STAGES for job in stage)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_lab_shares_its_machine() -> None:
    needs_root()
    expected = {kind: undisturbed(job) for kind, job in {job.kind: job for job in PLAN}.items()}
    with a_lab(slots=SLOTS, recipe=RECIPE, agent=AGENT, for_all=True) as lab:
        lab.start()
        come_in(lab)
        wait_until(lambda: slots_by_user(lab) == dict.fromkeys(USERS, 1), "equal shares", lab.log)
        live_through(lab)
        lab.down(Farewell.DRAIN)
        losses = {job: final_loss(lab, job) for job in PLAN}
        histories = {job: lab.history(job.name, str(job.user)) for job in PLAN}
        assert not lab.leftovers()

    for job, loss in losses.items():
        assert loss == pytest.approx(expected[job.kind], abs=1e-4), job
    resizes = [resizes_of(history) for history in histories.values()]
    assert max(resizes) >= 2


def come_in(lab: Lab) -> None:
    for number, stage in enumerate(STAGES):
        for job in stage:
            as_user(job.user, lambda: submitted(lab, job))  # noqa: B023 - asked at once
        if number == 0:
            wait_until(lambda: is_live(lab), "the long job to train", lab.log)
        elif number == 1:
            wait_until(lambda: resizes_of(lab.history("long", str(ALICE))) > 0, "it to shrink")


def slots_by_user(lab: Lab) -> dict[int, int]:
    """Of each user who has a job that is not over."""
    held = dict.fromkeys(USERS, 0)
    for job in PLAN:
        entry = lab.entry(job.name, str(job.user))
        if not entry.state.final:
            held[job.user] += len(entry.devices)
    return held


def is_live(lab: Lab) -> bool:
    return lab.entry("long", str(ALICE)).progress.live is True


def resizes_of(history: Sequence[Happening]) -> int:
    return sum(one.what == "Resized" for one in history)


def live_through(lab: Lab) -> None:
    """Kill the daemon three times on the way, each time with jobs that train and jobs that wait."""
    for over in (*KILLS_AFTER, len(PLAN)):
        wait_until(
            lambda: len(finished(lab)) >= over,  # noqa: B023 - asked at once
            f"{over} jobs to end",
            lab.log,
            PATIENCE_SECONDS,
        )
        if over < len(PLAN):
            lab.kill()
            lab.start()


def finished(lab: Lab) -> set[str]:
    try:
        lines = lab.client.jobs(Selection()).jobs
    except WorldError:
        return set()
    failed = [line for line in lines if line.state in ("Failed", "Cancelled")]
    assert not failed, failed
    return {line.uid for line in lines if line.finished}


def submitted(lab: Lab, job: Planned) -> str:
    words = [sys.executable, str(SCRIPT), *job.arguments, "--latency=0.02"]
    origin = Origin("/", {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT / "src")})
    spec = {"run": f"exec {' '.join(words)}", "resources": {"gpus": job.gpus}}
    return lab.client.submit(spec, job.name, origin=origin).uid


def undisturbed(job: Planned) -> float:
    """The same script by itself, as plain PyTorch."""
    run = subprocess.run(
        [sys.executable, str(SCRIPT), *job.arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    return float(json.loads(run.stdout.splitlines()[-1])["final"])


def final_loss(lab: Lab, job: Planned) -> float:
    """As every worker that came to the end says it."""
    uid = lab.entry(job.name, str(job.user)).uid
    logs: list[Path] = sorted(lab.folder.glob(f"jobs/{uid}/epoch-*/logs/worker-*.log"))
    lines = [line for log in logs for line in log.read_text().splitlines()]
    told = {json.loads(line)["final"] for line in lines if line.startswith('{"final"')}
    assert len(told) == 1, (job, lines[-20:])
    return float(told.pop())
