"""Odd uses: what is refused with a sentence, and what gives an answer all the same."""

import numpy as np
import pytest

from benchmarks.plans.limits import least_worst, put_together
from benchmarks.plans.tables import Measured
from tests.perf.plans.shapes import LLAMA7
from weft.model.errors import InfeasibleSpec, SpecError
from weft.model.ids import JobId
from weft.model.plan import ExecutionPlan, Sharding
from weft.model.shape import ModelShape
from weft.perf.plans.columns import PlanColumns
from weft.perf.plans.correction import Corrections, corrected
from weft.perf.plans.fabric import Fabric
from weft.perf.plans.fit import fitted, unmeasured
from weft.perf.plans.laws import Bounds
from weft.perf.plans.memory import TERMS, peak_memory
from weft.perf.plans.space import legal_plans
from weft.perf.plans.step import Cases, Work

FABRIC = Fabric()
MODEL = unmeasured(Work(shape=LLAMA7, batch=64), FABRIC)
DOT = ModelShape(parameters=1000, layers=1, hidden=4, sequence=1)


@pytest.mark.parametrize(
    ("plan", "width", "told"),
    [
        (ExecutionPlan(tensor=4), 2, "2 GPUs do not divide into replicas of 4"),
        (ExecutionPlan(), 0, "0 GPUs"),
        (ExecutionPlan(context=2), 2, "no program splits a sequence"),
    ],
)
def test_columns_take_no_plan_that_is_none(plan: ExecutionPlan, width: int, told: str) -> None:
    with pytest.raises(InfeasibleSpec, match=told) as caught:
        PlanColumns.of([plan], [width])
    assert caught.value.hint


def test_columns_and_plans_are_the_same() -> None:
    plans = legal_plans(Bounds(shape=LLAMA7, batch=16), (8, 16))
    again = PlanColumns.of(list(plans), plans.width.tolist())
    assert list(again) == list(plans)


def test_a_gpu_without_a_core_is_refused() -> None:
    with pytest.raises(SpecError, match="without a core"):
        Cases.of([ExecutionPlan()], [(1,)], [0.0], FABRIC)


def test_a_node_without_bandwidth_is_refused() -> None:
    with pytest.raises(SpecError, match="link_bandwidth"):
        Fabric(link_bandwidth=0.0)


def test_widths_that_are_none_have_no_plans() -> None:
    assert len(legal_plans(Bounds(shape=LLAMA7, batch=8), (-8, 0))) == 0
    assert len(legal_plans(Bounds(shape=LLAMA7, batch=8), ())) == 0


def test_an_odd_batch_leaves_the_widths_that_divide_it() -> None:
    widths = set(legal_plans(Bounds(shape=LLAMA7, batch=7), tuple(range(1, 9))).width.tolist())
    assert widths == {1, 2, 4, 7, 8}


def test_the_smallest_model_has_an_answer() -> None:
    plans = legal_plans(Bounds(shape=DOT, batch=1), (1,))
    assert (peak_memory(plans, DOT, 1).total > 0).all()
    case = Cases.of([ExecutionPlan()], [(1,)], [1.0], FABRIC)
    assert unmeasured(Work(shape=DOT, batch=1), FABRIC).seconds(case)[0] > 0


def test_one_block_is_not_gathered_twice() -> None:
    plan = ExecutionPlan(sharding=Sharding.PARAMETERS)
    peak = peak_memory(PlanColumns.of([plan], [2]), DOT, 2)
    working = peak.terms[TERMS.index("working"), 0]
    assert working < 2 * (2 + 2) * DOT.parameters


@pytest.mark.parametrize("seconds", [1e-12, 1e-6, 1e6, 1e12])
def test_an_absurd_time_is_followed_and_doubted(seconds: float) -> None:
    case = Cases.of([ExecutionPlan()] * 3, [(8,)] * 3, [4.0] * 3, FABRIC)
    model = fitted(case, np.full(3, seconds), MODEL)
    assert 0.5 < model.seconds(case)[0] / seconds < 2.0
    assert model.widening > 4.0


def test_no_points_leave_the_belief() -> None:
    none = Cases.of([], [], [], FABRIC)
    assert (fitted(none, np.array([]), MODEL).logs == MODEL.logs).all()


def test_a_forecast_follows_its_correction() -> None:
    case = Cases.of([ExecutionPlan()], [(8,)], [4.0], FABRIC)
    told = MODEL.forecast(case)
    job = JobId("slow")
    learnt = Corrections()
    for _ in range(20):
        learnt = learnt.learnt(
            job, ExecutionPlan(), foretold_seconds=1.0, measured_seconds=1.5, steps=20
        )
    after = corrected(told, learnt.of(job, ExecutionPlan()))
    assert after.seconds[0] == pytest.approx(1.5 * told.seconds[0], rel=0.02)
    assert after.high[0] / after.low[0] == pytest.approx(told.high[0] / told.low[0])


@pytest.mark.parametrize(
    ("parts", "room", "fits"),
    [([1, 1, 2], [2, 2], True), ([1, 3], [2, 2], False), ([2, 2], [4], True), ([4], [2, 2], False)],
)
def test_nodes_put_together(parts: list[int], room: list[int], fits: bool) -> None:
    assert put_together(parts, room) is fits


def test_rows_that_contradict_each_other_bound_every_form() -> None:
    def row(counts: tuple[int, ...], seconds: float) -> Measured:
        return Measured("ga", ExecutionPlan(), counts, seconds, 0.0)

    assert least_worst([row((2,), 1.0), row((1, 1), 2.0)]) == 0.0
    assert least_worst([row((2,), 3.0), row((1, 1), 1.0)]) == pytest.approx(50.0)
