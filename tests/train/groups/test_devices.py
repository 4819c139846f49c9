"""Workers on one machine with GPUs and processors of their own, as a world orders them."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.train.cradle import ROOT
from tests.train.driving import JOBS, Driven, driven
from tests.train.lines import check_each_once
from tests.waiting import HANG_SECONDS
from weft.agent.messages import Answer, Drain, Resize, Status
from weft.agent.wire.orders import ask

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

STEPS = ("--total", "250", "--pause", "0.05")
CPUS = tuple(sorted(os.sched_getaffinity(0)))


def told(job: Driven, order: Resize | Status) -> Answer:
    return asyncio.run(ask(job.folder / "run", order))


def living(status: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Workers that have not ended, by number."""
    return {int(n): w for n, w in status["workers"].items() if w["state"] != "exited"}


def test_who_loses_its_device_leaves_and_a_job_moves_to_another(tmp_path: Path) -> None:
    agent = ("-n", "2", "--devices", "0,3", "--cpus", ",".join(map(str, CPUS)))
    with driven(tmp_path, "mlp.py", *STEPS, agent=agent) as job:
        epoch = job.steady(2)["epoch"]
        workers = living(job.status())
        assert {w["device"] for w in workers.values()} == {0, 3}
        assert sorted(cpu for w in workers.values() for cpu in w["cpus"]) == list(CPUS)
        for worker in workers.values():
            assert os.sched_getaffinity(worker["pid"]) == set(worker["cpus"])

        assert told(job, Resize(1, devices=(3,))).ok
        epoch = job.steady(1, after=epoch)["epoch"]
        job.until(lambda e: e["event"] == "exited" and e["worker"] == 0)
        ((number, worker),) = living(job.status()).items()
        assert (number, worker["device"], worker["cpus"]) == (1, 3, list(CPUS))

        assert told(job, Resize(1, devices=(2,))).ok
        job.until(lambda e: e["event"] == "exited" and e["worker"] == 1)
        job.steady(1, after=epoch)
        status = told(job, Status()).body
        assert [(n, w["device"]) for n, w in living(status).items()] == [(2, 2)]
        assert status["members"] == [2]
        assert status["restarts"] == 0

        refused = told(job, Resize(2, devices=(2,)))
        assert (refused.ok, refused.body["why"]) == (False, "2 workers do not fit on 1 devices")
        assert not told(job, Resize(1, cpus=(9999,))).ok
        job.reached(job.newest_step + 3)
        status = told(job, Status()).body
        assert (status["live"], status["total"]) == (True, 250)
        assert status["loss"] == status["metrics"]["loss"] > 0
        (tmp_path / "hurry").touch()
        assert job.wait() == 0, job.logs()
    check_each_once(job.lines(), total=250)
    outcome = json.loads((tmp_path / "run" / "outcome.json").read_text())
    assert (outcome["outcome"], outcome["exit_code"], outcome["step"]) == ("finished", 0, 249)


def test_an_agent_goes_on_without_its_terminal_and_says_how_it_ended(tmp_path: Path) -> None:
    """No input, an output that nobody reads any more, and a terminal that has hung up."""
    folder = tmp_path / "run"
    command = ["-m", "weft.agent", "run", "--folder", str(folder), str(JOBS / "plain.py"), "60"]
    agent = subprocess.Popen(
        [sys.executable, *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert agent.stdout is not None
    assert b"spawned" in b"".join(agent.stdout.readline() for _ in range(3))
    agent.stdout.close()
    agent.send_signal(signal.SIGHUP)
    status = asyncio.run(ask(folder, Status())).body
    assert (status["live"], len(living(status))) == (None, 1)
    assert not (folder / "outcome.json").exists()
    asyncio.run(ask(folder, Drain(30.0)))
    assert agent.wait(HANG_SECONDS) == 143
    outcome = json.loads((folder / "outcome.json").read_text())
    assert (outcome["outcome"], outcome["exit_code"], outcome["why"]) == ("drained", 143, "drained")
    assert (outcome["step"], outcome["saved_step"]) == (-1, -1)
