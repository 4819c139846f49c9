"""A job goes from plan to plan while it trains: no sample is lost, and every number stays."""

import time
from pathlib import Path

import pytest

from tests.train.driving import Driven, driven
from tests.train.lines import Line, check_each_once

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

STAGES = "pipeline=2,micro_batches=2"
LONGEST_SECONDS = 40.0  # warm-up, deadline and the way back, on a machine with others on it
ENDINGS = ("replanned", "not replanned")
CYCLE = ("tensor=2", "shard=2", STAGES, "replicated")


def order_and_wait(job: Driven, plan: str) -> None:
    """Until the job is under that plan, or it is known that it cannot be."""
    before = sum(len(job.named(what)) for what in ENDINGS)
    job.order(f"plan {plan}")
    job.until(lambda _: sum(len(job.named(what)) for what in ENDINGS) > before)


def replanned(job: Driven, plan: str) -> None:
    """Order it, and wait until the job is under it and has made a few steps."""
    order_and_wait(job, plan)
    assert job.named("replanned")[-1]["plan"] == plan, job.logs()
    job.reached(job.newest_step + 2)


def check_bit_equal(lines: list[Line]) -> None:
    """What each step began with is what the one before it has ended with, under whatever plan."""
    begun: dict[int, dict[str, str]] = {}
    ended: dict[int, dict[str, str]] = {}
    for line in (line for line in lines if line.get("stepped") and line["before"]):
        for held, told in ((begun, line["before"]), (ended, line["after"])):
            known = held.setdefault(line["step"], {})
            for name, digest in told.items():
                assert known.setdefault(name, digest) == digest, (line["step"], name)
    for step in sorted(begun)[1:]:
        assert begun[step] == ended[step - 1], f"step {step} began with another state"
        assert any(name.startswith("optimizer/") for name in begun[step])


def test_a_cycle_of_plans_loses_nothing(tmp_path: Path) -> None:
    every = ("--total", "120", "--pause", "0.3", "--digest", "--communication", "ddp")
    with driven(tmp_path, "plans.py", *every, agent=("-n", "2")) as job:
        job.steady(2)
        job.reached(3)
        for plan in CYCLE:
            replanned(job, plan)
        (tmp_path / "hurry").touch()
        assert job.wait() == 0, job.logs()
    check_each_once(job.lines(), total=120, batch=8)
    check_bit_equal(job.lines())
    plans = [line["plan"] for line in job.lines() if line.get("stepped")]
    assert set(plans) == {"replicated", *CYCLE}


def test_a_plan_that_does_not_work_is_taken_back(tmp_path: Path) -> None:
    """Its first step never comes: the old plan goes on in time, with the same samples."""
    faults = ("hang:tensor=2", "fail:shard=2", f"early:{STAGES}")
    every = ("--total", "200", "--pause", "0.3", "--digest", "--fault", *faults)
    with driven(tmp_path, "plans.py", *every, agent=("-n", "2", "--try", "3")) as job:
        job.steady(2)
        job.reached(3)
        for fault in ("tensor=2", "shard=2", STAGES, "shard=2 stop"):
            plan, began = fault.split()[0], time.monotonic()
            order_and_wait(job, fault)
            assert time.monotonic() - began < LONGEST_SECONDS
            assert job.named("not replanned")[-1]["stays"] == "replicated"
            job.reached(job.newest_step + 2)
            status = job.status()
            assert (status["plan"], status["target_plan"]) == ("replicated", "replicated")
            assert status["unreached"]["plan"] == plan
        (tmp_path / "hurry").touch()
        assert job.wait() == 0, job.logs()
    check_each_once(job.lines(), total=200, batch=8)
    check_bit_equal(job.lines())
    assert {line["plan"] for line in job.lines() if line.get("stepped")} == {"replicated"}
