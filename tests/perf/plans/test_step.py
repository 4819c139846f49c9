"""Step time: what the form promises, and what is learnt from few points."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.plans.shapes import ALL, LLAMA7
from weft.model.errors import SpecError
from weft.model.plan import ExecutionPlan, Sharding
from weft.model.shape import ModelShape
from weft.perf.plans.columns import Floats
from weft.perf.plans.design import measured_points, most_telling
from weft.perf.plans.fabric import Fabric
from weft.perf.plans.fit import StepModel, fitted, unmeasured
from weft.perf.plans.laws import Bounds
from weft.perf.plans.space import legal_plans
from weft.perf.plans.step import Cases, Part, Work, step_seconds

FABRIC = Fabric()
WORK = Work(shape=LLAMA7, batch=64)
MODEL = unmeasured(WORK, FABRIC)


def seconds(
    plan: ExecutionPlan, gpus: int, *, cores: float = 4.0, fabric: Fabric = FABRIC
) -> float:
    case = Cases.of([plan], [fabric.filled(gpus)], [cores], fabric)
    return float(replace(MODEL, fabric=fabric).seconds(case)[0])


def test_a_pipeline_has_a_bubble() -> None:
    """With m micro-batches p stages take (m + p - 1) / m of the time without gaps."""
    logs = MODEL.logs.copy()
    heard = (Part.COMPUTE, Part.FORWARD, Part.SPLIT)
    silent = [part for part in Part if part not in heard]
    logs[silent] = -40.0
    logs[[Part.CARD, Part.LINK]] = 40.0
    for micro in (1, 2, 8, 64):
        plan = ExecutionPlan(pipeline=8, micro_batches=micro)
        case = Cases.of([plan], [(8,)], [4.0], FABRIC)
        (found,) = step_seconds(logs, case, WORK, FABRIC)
        without = np.exp(logs[Part.COMPUTE]) / 8
        assert found == pytest.approx(without * (micro + 7) / micro, rel=1e-6)


def test_more_micro_batches_are_never_slower() -> None:
    times = [seconds(ExecutionPlan(pipeline=4, micro_batches=m), 8) for m in (1, 2, 4, 8, 16)]
    assert all(before > after for before, after in pairwise(times))


def test_cores_help_offload_and_nothing_else() -> None:
    offload = ExecutionPlan(sharding=Sharding.GRADIENTS, offload=True)
    assert seconds(offload, 1, cores=4.0) < seconds(offload, 1, cores=2.0)
    assert seconds(ExecutionPlan(), 1, cores=4.0) == seconds(ExecutionPlan(), 1, cores=2.0)


def test_bandwidth_between_nodes_matters_between_nodes() -> None:
    fast = Fabric(card_bandwidth=100e9)
    assert seconds(ExecutionPlan(), 16, fabric=fast) < seconds(ExecutionPlan(), 16)
    assert seconds(ExecutionPlan(), 8, fabric=fast) == seconds(ExecutionPlan(), 8)


def test_recomputing_costs_a_forward_pass_at_most() -> None:
    plain, again = seconds(ExecutionPlan(), 1), seconds(ExecutionPlan(recompute=True), 1)
    assert 1.1 < again / plain < 1.5


def test_a_hybrid_spares_the_cards() -> None:
    whole = ExecutionPlan(sharding=Sharding.PARAMETERS, accumulation_steps=4)
    assert seconds(replace(whole, shard_degree=8), 16) < seconds(whole, 16)


@given(st.sampled_from(ALL), st.sampled_from([8, 64, 256]), st.integers(1, 40))
def test_every_legal_plan_has_a_time(shape: ModelShape, batch: int, width: int) -> None:
    plans = legal_plans(Bounds(shape=shape, batch=batch), (width,))
    placed = [FABRIC.filled(width)] * len(plans)
    cases = Cases.laid(plans, placed, np.full(len(plans), 4.0), FABRIC)
    told = unmeasured(Work(shape=shape, batch=batch), FABRIC).forecast(cases)
    assert np.isfinite(told.seconds).all()
    assert ((told.low < told.seconds) & (told.seconds < told.high)).all()
    assert (told.low > 0.0).all()


PLANS = (
    ExecutionPlan(),
    ExecutionPlan(recompute=True),
    ExecutionPlan(sharding=Sharding.GRADIENTS),
    ExecutionPlan(sharding=Sharding.GRADIENTS, offload=True),
    ExecutionPlan(tensor=2),
    ExecutionPlan(tensor=2, pipeline=2),
)
PLACES = ((4,), (8,), (4, 4), (2, 2, 2, 2), (8, 8))


def made(seed: int) -> tuple[Cases, Floats, StepModel]:
    """A job whose quantities differ from what is believed, and all its true times."""
    chance = np.random.default_rng(seed)
    doubts = np.sqrt(np.diag(MODEL.covariance))
    truth = MODEL.logs + doubts * chance.normal(size=len(MODEL.logs))
    rows = [(plan, place) for plan in PLANS for place in PLACES]
    cases = Cases.of([plan for plan, _ in rows], [p for _, p in rows], [4.0] * len(rows), FABRIC)
    times = step_seconds(truth, cases, WORK, FABRIC)
    return cases, times * np.exp(0.03 * chance.normal(size=len(times))), MODEL


def test_seven_points_foretell_the_others() -> None:
    """Of made-up jobs: errors small, and intervals neither empty words nor too sure."""
    errors, inside = [], []
    for seed in range(8):
        cases, times, prior = made(seed)
        rows = np.arange(len(times))
        model, chosen = measured_points(cases, rows, times.__getitem__, prior)
        assert len(set(chosen)) == 7
        told, rest = model.forecast(cases), np.delete(rows, list(chosen))
        errors.append(np.abs(told.seconds / times - 1.0)[rest].mean())
        inside.append(((told.low <= times) & (times <= told.high))[rest].mean())
    assert np.mean(errors) < 0.07
    assert 0.7 < np.mean(inside) < 0.95


def test_a_point_narrows_what_is_like_it_most() -> None:
    cases, times, prior = made(1)
    rows = np.array([0])
    after = fitted(cases.take(rows), times[rows], prior)
    ratio = after.doubts(cases) / prior.doubts(cases)
    assert ratio[0] == ratio.min()
    assert (ratio < 1.3).all()


def test_the_choice_of_points_sees_no_time() -> None:
    cases, times, prior = made(2)
    asked: list[int] = []

    def measure(row: int) -> float:
        asked.append(row)
        return float(times[row])

    _, chosen = measured_points(cases, np.arange(len(times)), measure, prior, 4)
    assert asked == list(chosen)
    assert chosen[0] == most_telling(prior, cases, np.arange(len(times)))


def test_fewer_candidates_than_points() -> None:
    cases, times, prior = made(3)
    _, chosen = measured_points(cases, np.array([4, 9]), times.__getitem__, prior)
    assert sorted(chosen) == [4, 9]


def test_points_that_contradict_each_other_widen_the_interval() -> None:
    case = Cases.of([ExecutionPlan()] * 3, [(8,)] * 3, [4.0] * 3, FABRIC)
    calm = fitted(case, np.array([5.0, 5.0, 5.0]), MODEL)
    torn = fitted(case, np.array([2.0, 5.0, 12.0]), MODEL)
    assert torn.widening > 2.0 * calm.widening


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf")])
def test_a_time_that_cannot_be(wrong: float) -> None:
    case = Cases.of([ExecutionPlan()], [(8,)], [4.0], FABRIC)
    with pytest.raises(SpecError):
        fitted(case, np.array([wrong]), MODEL)


def test_another_batch_computes_in_proportion() -> None:
    twice = MODEL.at_batch(128)
    ratio = np.exp(twice.logs - MODEL.logs)
    assert ratio[Part.COMPUTE] == pytest.approx(2.0)
    assert twice.work.batch == 128


def test_the_same_points_give_the_same_model() -> None:
    cases, times, prior = made(5)
    one, other = (fitted(cases, times, prior) for _ in range(2))
    assert (one.logs == other.logs).all()
