"""Real training processes that take turns on one slot, as a user of the machine sees it.

One job mostly reads and says nothing of its steps; one mostly computes and says so. They are put
together once the first has been measured. One is killed, the daemon is killed, one ends: whoever is
left goes on as it is.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.local.daemons import Lab, a_lab, wait_until
from tests.local.test_company import alone, in_company
from tests.local.test_elastic import told
from weft.local.agents.launch import AGENT

SCRIPT: Final = Path(__file__).parent / "jobs" / "staged.py"
RECIPE: Final = "fifo(spacing=0.1, interleave=true)"
TORCH_SECONDS: Final = 120.0
STAGES: Final = {"storage_seconds": 0.005, "gpu_seconds": 0.04, "step_seconds": 0.045}


def submit(lab: Lab, name: str, *, read: float, compute: float, **spec: Any) -> None:
    words = f"{sys.executable} {SCRIPT} --read={read} --compute={compute}"
    files = f"--out={lab.folder}/{name}.steps --until={lab.folder}/{name}.enough"
    environment = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    lab.submit(name, f"{words} {files}", shareable=True, env=environment, **spec)


def steps(lab: Lab, name: str) -> list[int]:
    path = lab.folder / f"{name}.steps"
    return [int(line.split()[0]) for line in path.read_text().splitlines()] if path.exists() else []


def until_more_steps(lab: Lab, *names: str) -> None:
    goals = {name: len(steps(lab, name)) + 20 for name in names}
    for name, goal in goals.items():
        wait_until(
            lambda name=name, goal=goal: len(steps(lab, name)) >= goal,  # type: ignore[misc]
            f"steps of {name}",
            lab.log,
            TORCH_SECONDS,
        )


def said(lab: Lab, *words: str) -> str:
    """What the command line says of this machine."""
    environment = {**os.environ, "WEFT_LOCAL_SOCKET": str(lab.socket), "COLUMNS": "500"}
    command = (sys.executable, "-m", "weft.cli.main", *words)
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout


def worker_of(lab: Lab, name: str) -> int:
    (worker,) = lab.client.job(name).workers
    return int(worker.uid)


def test_a_reading_and_a_computing_job_share_one_slot() -> None:
    with a_lab(slots=1, recipe=RECIPE, agent=AGENT) as lab:
        lab.start()
        submit(lab, "reads", read=0.08, compute=0.01)
        until_more_steps(lab, "reads")
        submit(lab, "computes", read=0.001, compute=0.04, stages=STAGES)
        lab.wait_for("computes", "Running", seconds=TORCH_SECONDS)
        in_company(lab, "reads", "computes")
        until_more_steps(lab, "reads", "computes")
        _is_told(lab)
        _one_is_killed(lab)
        _the_daemon_is_killed(lab)
        _one_ends(lab)
        assert not [breach for breach in told(lab, "JobFailed") if "reads" in breach["job"]]


def _is_told(lab: Lab) -> None:
    for words in (("why", "computes"), ("show", "computes")):
        text = said(lab, *words)
        assert f"takes turns with {lab.entry('reads').id}" in text, text
        assert "times the work of one" in text
    wait_until(lambda: bool(_shared(lab)), "a speed in company", lab.log, TORCH_SECONDS)
    reading = [one["stages"] for one in told(lab, "JobMeasured") if one["job"].endswith("/reads")]
    measured = next(stages for stages in reading if stages is not None)
    assert measured["storage_seconds"] > 3 * measured["gpu_seconds"]


def _shared(lab: Lab) -> list[float]:
    found = [one["shared_steps_per_second"] for one in told(lab, "JobMeasured")]
    return [rate for rate in found if rate is not None]


def _one_is_killed(lab: Lab) -> None:
    """A worker of one: the other loses no step and stays what it is."""
    before = worker_of(lab, "reads")
    os.kill(worker_of(lab, "computes"), signal.SIGKILL)
    until_more_steps(lab, "reads", "computes")
    assert worker_of(lab, "reads") == before
    made = steps(lab, "reads")
    assert made == list(range(made[0], made[0] + len(made)))


def _the_daemon_is_killed(lab: Lab) -> None:
    before = {name: (worker_of(lab, name), lab.entry(name).epoch) for name in ("reads", "computes")}
    lab.kill()
    until_more_steps(lab, "reads", "computes")
    lab.start()
    in_company(lab, "reads", "computes")
    assert {name: (worker_of(lab, name), lab.entry(name).epoch) for name in before} == before


def _one_ends(lab: Lab) -> None:
    (lab.folder / "reads.enough").touch()
    lab.wait_for("reads", "Succeeded", seconds=TORCH_SECONDS)
    wait_until(lambda: alone(lab, "computes"), "the other to be alone", lab.log)
    until_more_steps(lab, "computes")
    assert "takes turns" not in said(lab, "why", "computes")
