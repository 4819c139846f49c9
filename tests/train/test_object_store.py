"""A job that keeps its state in an object store is killed, and goes on from what is there."""

import os
import signal
from pathlib import Path

import pytest

from tests.agent.checkpoint.stores import BUCKET, a_store
from tests.train.alone import undisturbed
from tests.train.driving import driven, processes_of
from tests.train.lines import applied, finals, read_lines

pytestmark = [pytest.mark.slow, pytest.mark.enable_socket, pytest.mark.timeout(120)]
TOTAL, EVERY_SECONDS, PAUSE_SECONDS = 120, 0.5, 0.05
JOB = ("mlp.py", "--total", str(TOTAL), "--level", "bitwise")
SLACK_SECONDS = 1.5  # to write one, on a machine that others use too


def test_a_job_that_was_killed_whole_loses_no_more_than_the_interval(tmp_path: Path) -> None:
    kept = ("--checkpoints", f"s3://{BUCKET}/run", "--every", str(EVERY_SECONDS))
    with a_store(tmp_path / "s3") as variables:
        agent: tuple[str, ...] = ("-n", "2", *kept)
        pause = ("--pause", str(PAUSE_SECONDS))
        first, second = tmp_path / "first", tmp_path / "second"
        second.mkdir()
        with driven(first, *JOB, *pause, agent=agent, **variables) as job:
            job.reached(40)
            durable = job.status()["saved_step"]
            for pid in (job.process.pid, *processes_of(first)):
                os.kill(pid, signal.SIGKILL)
            job.process.wait()
            died = job.newest_step
        assert durable > 0
        agent = ("-n", "1", "--incarnation", "2", *kept)
        variables["WEFT_TEST_OUT"] = str(second)
        with driven(first, *JOB, agent=agent, **variables) as job:
            assert job.wait() == 0, job.logs()
    lines = read_lines(second)
    steps = next(iter(applied(lines).values()))
    assert durable < steps[0] <= died + 1
    lost = died + 1 - steps[0]
    print(f"{lost} steps were lost, of {died + 1}")  # noqa: T201
    assert lost * PAUSE_SECONDS <= EVERY_SECONDS + SLACK_SECONDS, f"{lost} steps were lost"
    assert steps == list(range(steps[0], TOTAL))
    assert {end["digest"] for end in finals(lines)} == {undisturbed(*JOB)["digest"]}
    assert not (first / "run" / "fetched").exists()
