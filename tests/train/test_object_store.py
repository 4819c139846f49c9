"""A job that keeps its state in an object store is killed, and goes on from what is there."""

import os
import signal
from pathlib import Path

import pytest

from tests.agent.checkpoint.stores import BUCKET, a_store
from tests.train.alone import undisturbed
from tests.train.driving import Driven, driven, processes_of
from tests.train.lines import applied, finals, read_lines
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.enable_socket, pytest.mark.timeout(120)]
TOTAL = 120
JOB = ("mlp.py", "--total", str(TOTAL), "--level", "bitwise")


def saved_step(job: Driven) -> int:
    return max(int(job.status()["saved_step"]), 0)


def test_a_job_killed_whole_goes_on_from_its_newest_object(
    tmp_path: Path,
) -> None:
    kept = ("--checkpoints", f"s3://{BUCKET}/run", "--every", "0.5")
    with a_store(tmp_path / "s3") as variables:
        agent: tuple[str, ...] = ("-n", "2", *kept)
        pause = ("--pause", "0.05")
        first, second = tmp_path / "first", tmp_path / "second"
        second.mkdir()
        with driven(first, *JOB, *pause, agent=agent, **variables) as job:
            first_saved = until(lambda: saved_step(job), "a checkpoint", state=job.logs)
            until(lambda: saved_step(job) > first_saved, "the next one", state=job.logs)
            durable = saved_step(job)
            for pid in (job.process.pid, *processes_of(first)):
                os.kill(pid, signal.SIGKILL)
            job.process.wait()
            died = job.newest_step
        agent = ("-n", "1", "--incarnation", "2", *kept)
        variables["WEFT_TEST_OUT"] = str(second)
        with driven(first, *JOB, agent=agent, **variables) as job:
            assert job.wait() == 0, job.logs()
    lines = read_lines(second)
    steps = next(iter(applied(lines).values()))
    assert durable < steps[0] <= died + 1
    assert steps == list(range(steps[0], TOTAL))
    assert {end["digest"] for end in finals(lines)} == {undisturbed(*JOB)["digest"]}
    assert not (first / "run" / "fetched").exists()
