"""A job goes from plan to plan while it trains: no sample is lost, and every number stays."""

import re
from pathlib import Path

import pytest

from tests.train.alone import undisturbed
from tests.train.cradle import ROOT
from tests.train.driving import Driven, driven
from tests.train.lines import Line, check_each_once, finals

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

STAGES = "pipeline=2,micro_batches=2"
ENDINGS = ("replanned", "not replanned")
CYCLE = ("tensor=2", "shard=2", "shard=2,tensor=2 4", f"{STAGES} 2", "replicated")


def order_and_wait(job: Driven, plan: str) -> None:
    """Until the job is under that plan, or it is known that it cannot be."""
    before = sum(len(job.named(what)) for what in ENDINGS)
    job.order(f"plan {plan}")
    job.until(lambda _: sum(len(job.named(what)) for what in ENDINGS) > before)


def replanned(job: Driven, plan: str) -> None:
    """Order it, and wait until the job is under it and has made a few steps."""
    order_and_wait(job, plan)
    assert job.named("replanned")[-1]["plan"] == plan.split(maxsplit=1)[0], job.logs()
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
    assert set(plans) == {"replicated", *(plan.split()[0] for plan in CYCLE)}
    expected = undisturbed("plans.py", *every[:2])["loss"]
    assert finals(job.lines())[0]["loss"] == pytest.approx(expected, abs=1e-3)


def test_a_plan_that_does_not_work_is_taken_back(tmp_path: Path) -> None:
    """Its first step never comes: the old plan goes on in time, with the same samples."""
    faults = ("hang:tensor=2", "fail:shard=2", f"early:{STAGES}")
    every = ("--total", "200", "--pause", "0.3", "--digest", "--fault", *faults)
    with driven(tmp_path, "plans.py", *every, agent=("-n", "2", "--try", "3")) as job:
        job.steady(2)
        job.reached(3)
        for fault in ("tensor=2", "shard=2", STAGES, "shard=2 stop"):
            plan = fault.split()[0]
            order_and_wait(job, fault)
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


def test_what_the_guide_says_stands_in_the_example() -> None:
    """The example is what is tested, so the guide shows pieces of it and nothing else."""
    guide = (ROOT / "docs" / "plans.md").read_text()
    example = (ROOT / "examples" / "plans.py").read_text()
    pieces = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    assert len(pieces) == 3
    for piece in pieces:
        assert piece.rstrip("\n") in example, piece


def test_the_example_changes_its_plan(tmp_path: Path) -> None:
    sizes = ("--steps", "100000", "--batch", "4", "--width", "16", "--context", "16")
    example = str(ROOT / "examples" / "plans.py")
    with driven(tmp_path, example, *sizes, agent=("-n", "2")) as job:
        job.steady(2)
        for plan in ("tensor=2", STAGES):
            order_and_wait(job, plan)
            assert job.status()["plan"] == plan
        assert set(job.status()["offers"]) >= {"data", "fsdp2", "tensor", "pipeline"}
        job.order("plan context=2")
        job.order("drain 10")
        assert job.wait() == 143, job.logs()
    assert "a plan has no" in str(job.named("answer"))


CRASHES = (
    ("CRASH_0", "yielded"),  # one that trains has saved, and dies before it says that it waits
    ("CRASH_3", "ready"),  # a new one, while the others train
    ("CRASH_2", "before-vote"),  # in the first step under the new plan
    ("CRASH_2", "applied"),
)


@pytest.mark.parametrize("crash", CRASHES, ids=lambda crash: f"{crash[1]} of {crash[0][-1]}")
def test_a_death_at_any_moment_of_a_switch_loses_nothing(
    tmp_path: Path, crash: tuple[str, str]
) -> None:
    """Either plan goes on, or all begin again from what was saved: each sample counts once."""
    every = ("--total", "60", "--pause", "0.15")
    with driven(tmp_path, "plans.py", *every, agent=("-n", "2"), **dict((crash,))) as job:
        job.steady(2)
        job.reached(2)
        job.order("plan tensor=2")
        job.until(lambda e: e["event"] == "exited" and e["code"] == -9)
        (tmp_path / "hurry").touch()
        assert job.wait() == 0, job.logs()
    taken = last_taken(job.lines())
    assert sorted(taken) == list(range(60))
    order = [sample for step in range(60) for sample in sorted(taken[step])]
    assert len(order) == 60 * 8
    for start in range(0, len(order) - 159, 160):
        assert sorted(order[start : start + 160]) == list(range(160))


def last_taken(lines: list[Line]) -> dict[int, list[int]]:
    """The samples of each step, in the last epoch in which it was applied.

    A step under a plan that was taken back was applied by workers that are no more.
    """
    last: dict[int, int] = {}
    for line in lines:
        if line.get("stepped"):
            last[line["step"]] = max(line["epoch"], last.get(line["step"], 0))
    return {
        step: [
            sample
            for line in lines
            if line.get("of") == step and line["epoch"] == epoch
            for sample in line["took"]
        ]
        for step, epoch in last.items()
    }
