"""What is learnt from steps that were off, and jobs that are no longer reconfigured."""

import pytest

from weft.model.ids import JobId
from weft.model.plan import ExecutionPlan, Sharding
from weft.perf.plans.correction import Corrections, Family, family_of
from weft.perf.plans.watch import PlanWatch

ONE, OTHER = JobId("one"), JobId("other")
PLAN = ExecutionPlan()


def after(measured: list[float], *, job: JobId = ONE, steps: int = 20) -> Corrections:
    found = Corrections()
    for seconds in measured:
        found = found.learnt(job, PLAN, foretold_seconds=1.0, measured_seconds=seconds, steps=steps)
    return found


def test_nothing_is_corrected_before_anything_is_known() -> None:
    assert Corrections().of(ONE, PLAN).factor == 1.0


def test_a_job_that_is_slower_is_foretold_slower_and_surer() -> None:
    few, many = after([1.3]).of(ONE, PLAN), after([1.3] * 10).of(ONE, PLAN)
    assert 1.0 < few.factor < many.factor < 1.3
    assert many.factor == pytest.approx(1.3, rel=0.05)
    assert many.doubt < few.doubt < Corrections().of(ONE, PLAN).doubt


def test_others_of_the_cluster_believe_a_part_of_it() -> None:
    learnt = after([1.3] * 10)
    assert 1.0 < learnt.of(OTHER, PLAN).factor < learnt.of(ONE, PLAN).factor
    assert learnt.of(OTHER, ExecutionPlan(tensor=2)).factor == 1.0


def test_many_jobs_make_it_the_clusters() -> None:
    found = Corrections()
    for number in range(20):
        for _ in range(3):
            found = found.learnt(
                JobId(f"job-{number}"), PLAN, foretold_seconds=1.0, measured_seconds=1.2, steps=50
            )
    assert found.of(JobId("new"), PLAN).factor == pytest.approx(1.2, rel=0.05)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan")])
def test_what_cannot_be_is_not_learnt(seconds: float) -> None:
    assert after([seconds]) == Corrections()


def test_fewer_than_twenty_steps_say_nothing() -> None:
    assert after([2.0], steps=19) == Corrections()


def test_an_absurd_ratio_is_bounded() -> None:
    assert after([1e9]).of(ONE, PLAN).factor < 10.0


def test_a_job_that_is_over_is_forgotten_and_its_lesson_is_not() -> None:
    left = after([1.3] * 5).without(ONE)
    assert not left.jobs
    assert left.of(OTHER, PLAN).factor > 1.0


@pytest.mark.parametrize(
    ("plan", "family"),
    [
        (ExecutionPlan(), Family.REPLICATED),
        (ExecutionPlan(sharding=Sharding.PARAMETERS), Family.SHARDED),
        (ExecutionPlan(pipeline=2, sharding=Sharding.OPTIMIZER), Family.SPLIT),
        (ExecutionPlan(offload=True, tensor=2), Family.OFFLOADED),
    ],
)
def test_families(plan: ExecutionPlan, family: Family) -> None:
    assert family_of(plan) is family


def watched(measured: list[float]) -> PlanWatch:
    watch = PlanWatch()
    for seconds in measured:
        watch = watch.look(foretold_seconds=1.0, measured_seconds=seconds)
    return watch


def test_three_windows_far_off_hold_a_job() -> None:
    assert watched([1.3, 1.3]).may_reconfigure
    held = watched([1.3, 0.7, 1.21])
    assert not held.may_reconfigure
    assert held.why == (
        "its steps were more than 20% off what was foretold in 3 windows in a row, +21% in the "
        "last: it keeps its plan"
    )


def test_a_window_that_is_right_begins_the_count_anew() -> None:
    assert watched([1.3, 1.3, 1.1, 1.3, 1.3]).may_reconfigure
    assert watched([1.3, 1.3, 1.1]).why == ""


def test_a_job_is_let_go_once_forecasts_are_right_again() -> None:
    assert not watched([1.3] * 3 + [1.0] * 2).may_reconfigure
    assert watched([1.3] * 3 + [1.0] * 3).may_reconfigure


def test_a_fifth_is_not_yet_far_off() -> None:
    assert watched([1.2] * 10).may_reconfigure
