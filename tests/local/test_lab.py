"""A lab shares one machine: four users, twelve training jobs, four slots, and a daemon that dies.

Real users, real agents, real training. Whatever happens to the daemon, shares stay fair, widths
follow what is free, and every job ends with the loss that it has when nobody disturbs it.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
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
SAMPLE_SECONDS: Final = 0.5
SETTLING_SECONDS: Final = 5.0
SEATED: Final = ("Starting", "Running", "Resizing", "Resized", "Stopping", "Ended", "Queued")


@dataclass(frozen=True, slots=True)
class Planned:
    """One job of the twelve."""

    user: int
    name: str
    gpus: str | int
    steps: int
    seed: int

    @property
    def most(self) -> int:
        return int(str(self.gpus).rpartition("..")[2])

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


@dataclass(frozen=True, slots=True)
class Told:
    """What the record says of one job: what it held from when on, and when it was over."""

    user: int
    most: int
    submitted: float
    ended: float
    held: Sequence[tuple[float, int]]

    def gpus(self, at: float) -> int:
        return next((gpus for begin, gpus in reversed(self.held) if begin <= at), 0)

    def wants(self, at: float) -> int:
        return self.most if self.submitted <= at < self.ended else 0


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(900)
def test_a_lab_shares_its_machine() -> None:
    needs_root()
    expected = {kind: undisturbed(job) for kind, job in {job.kind: job for job in PLAN}.items()}
    with a_lab(slots=SLOTS, recipe=RECIPE, agent=AGENT, for_all=True) as lab:
        lab.start()
        come_in(lab)
        live_through(lab)
        lab.down(Farewell.DRAIN)
        losses = {job: final_loss(lab, job) for job in PLAN}
        histories = {job: lab.history(job.name, str(job.user)) for job in PLAN}
        assert not lab.leftovers()

    for job, loss in losses.items():
        assert loss == pytest.approx(expected[job.kind], abs=1e-4), job
    resizes = [resizes_of(history) for history in histories.values()]
    shares = list(deviations([told(job, histories[job]) for job in PLAN]))
    show(shares, resizes, histories)
    assert max(resizes) >= 2
    assert_fair(shares)


def come_in(lab: Lab) -> None:
    for number, stage in enumerate(STAGES):
        for job in stage:
            as_user(job.user, lambda: submitted(lab, job))  # noqa: B023 - asked at once
        if number == 0:
            wait_until(lambda: is_live(lab), "the long job to train", lab.log)
        elif number == 1:
            wait_until(lambda: resizes_of(lab.history("long", str(ALICE))) > 0, "it to shrink")


def is_live(lab: Lab) -> bool:
    return lab.entry("long", str(ALICE)).progress.live is True


def resizes_of(history: Sequence[Happening]) -> int:
    return sum(one.what == "Resized" for one in history)


def live_through(lab: Lab) -> None:
    """Kill the daemon three times on the way, each time with jobs that train and jobs that wait."""
    kills = list(KILLS_AFTER)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (over := len(finished(lab))) < len(PLAN):
        assert time.monotonic() < deadline, lab.states()
        if kills and over >= kills[0]:
            kills.pop(0)
            lab.kill()
            lab.start()
        time.sleep(0.2)
    assert not kills


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
        timeout=120,
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


# --- fairness, from the record ------------------------------------------------------------------


def told(job: Planned, history: Sequence[Happening]) -> Told:
    """Reasons of waiting are part of a history too, and say nothing of seats."""
    held = [(one.at, one.gpus) for one in history if one.what in SEATED]
    return Told(job.user, job.most, history[0].at, history[-1].at, held)


def deviations(jobs: Sequence[Told]) -> Iterator[tuple[float, dict[int, float]]]:
    """For each moment at which two users or more want something: how far each is from fair."""
    at = min(job.submitted for job in jobs) + SETTLING_SECONDS
    while at < max(job.ended for job in jobs):
        wants = {user: sum(j.wants(at) for j in jobs if j.user == user) for user in USERS}
        wants = {user: want for user, want in wants.items() if want}
        held = {user: sum(j.gpus(at) for j in jobs if j.user == user) for user in wants}
        fair = fair_shares(wants, SLOTS)
        if len(wants) > 1:
            yield at, {user: held[user] - fair[user] for user in wants}
        at += SAMPLE_SECONDS


def fair_shares(wants: Mapping[int, int], slots: int) -> dict[int, float]:
    """Max-min: nobody gets more than wanted, and what is left is shared equally."""
    shares: dict[int, float] = {}
    left = float(slots)
    for count, (user, want) in enumerate(sorted(wants.items(), key=lambda item: item[1])):
        shares[user] = min(float(want), left / (len(wants) - count))
        left -= shares[user]
    return shares


def assert_fair(shares: Sequence[tuple[float, dict[int, float]]]) -> None:
    """Within one slot on average for everybody, and at nearly every moment."""
    assert shares
    for user in USERS:
        own = [off[user] for _, off in shares if user in off]
        assert abs(sum(own)) <= len(own), user
    outside = sum(any(abs(value) > 1.0 for value in off.values()) for _, off in shares)
    assert outside <= 0.05 * len(shares)


def show(
    shares: Sequence[tuple[float, dict[int, float]]],
    resizes: Sequence[int],
    histories: Mapping[Planned, Sequence[Happening]],
) -> None:
    begin = min(history[0].at for history in histories.values())
    end = max(history[-1].at for history in histories.values())
    worst = max(abs(value) for _, off in shares for value in off.values())
    outside = sum(any(abs(value) > 1.0 for value in off.values()) for _, off in shares)
    print(f"{end - begin:.0f} s, {sum(resizes)} resizes, {len(shares)} samples,")  # noqa: T201
    print(f"{outside} beyond one slot, worst {worst:.2f} slots from fair")  # noqa: T201
    for job, history in histories.items():
        line = " ".join(f"{one.at - begin:.1f}:{one.what}:{one.gpus}" for one in history)
        print(f"  {job.user} {job.name}: {line}")  # noqa: T201


def test_fair_shares_are_max_min() -> None:
    assert fair_shares({1: 8, 2: 8, 3: 1}, 4) == {3: 1.0, 1: 1.5, 2: 1.5}
    assert fair_shares({1: 1, 2: 1}, 4) == {1: 1.0, 2: 1.0}
