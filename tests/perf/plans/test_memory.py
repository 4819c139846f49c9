"""Peak memory beside an accounting that walks every tensor, and what a refusal names."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.plans.accounting import Walk, counted
from tests.perf.plans.shapes import ALL, LLAMA7, LLAMA70
from weft.model.plan import ExecutionPlan, Sharding
from weft.model.shape import MIXED, ModelShape
from weft.perf.plans.columns import PlanColumns
from weft.perf.plans.fabric import GIB, Fabric
from weft.perf.plans.laws import Bounds
from weft.perf.plans.memory import TERMS, peak_memory
from weft.perf.plans.space import legal_plans

PLANS = 150
BATCHES = (16, 32, 64, 128, 256)


def differences() -> list[float]:
    """Foretold over walked, less 1, of plans drawn from those that nearly fit."""
    chance = np.random.default_rng(20)
    found = []
    for _ in range(PLANS):
        shape = ALL[chance.integers(len(ALL))]
        shape, batch = replace(shape, parameters=counted(shape)), int(chance.choice(BATCHES))
        plans = legal_plans(Bounds(shape=shape, batch=batch), tuple(range(1, 65)))
        peak = peak_memory(plans, shape, batch)
        row = int(chance.choice(np.flatnonzero(peak.total < 160 * GIB)))
        plan = plans.plan(row)
        parts = plan.data * plan.accumulation_steps * plan.micro_batches
        walked = Walk(plan, shape, batch // parts, MIXED).peak()
        found.append(float(peak.tensors[row]) / walked - 1.0)
    return found


def test_plans_walked_tensor_by_tensor() -> None:
    found = np.array(differences())
    assert np.abs(found).mean() <= 0.08
    assert found.min() >= -0.05


def terms(plan: ExecutionPlan, width: int, batch: int = 64) -> dict[str, float]:
    peak = peak_memory(PlanColumns.of([plan], [width]), LLAMA7, batch)
    return dict(zip(TERMS, peak.terms[:, 0].tolist(), strict=True))


def test_each_stage_shares_out_one_thing_more() -> None:
    plans = [terms(ExecutionPlan(sharding=sharding), 8) for sharding in Sharding]
    shrinks = [
        [term for term in TERMS[:3] if after[term] < before[term]]
        for before, after in pairwise(plans)
    ]
    assert shrinks == [["optimizer"], ["gradients"], ["weights"]]


def test_a_hybrid_keeps_a_copy_in_each_group() -> None:
    whole = terms(ExecutionPlan(sharding=Sharding.PARAMETERS), 16)
    hybrid = terms(ExecutionPlan(sharding=Sharding.PARAMETERS, shard_degree=8), 16)
    assert hybrid["weights"] == pytest.approx(2 * whole["weights"])


def test_offload_moves_state_to_the_host() -> None:
    plan = ExecutionPlan(sharding=Sharding.GRADIENTS, offload=True)
    peak = peak_memory(PlanColumns.of([plan], [4]), LLAMA7, 64)
    stays = peak_memory(PlanColumns.of([replace(plan, offload=False)], [4]), LLAMA7, 64)
    assert peak.host_bytes[0] == pytest.approx(stays.terms[1:3, 0].sum())
    assert stays.host_bytes[0] == 0.0
    assert peak.total[0] < stays.total[0]


@pytest.mark.parametrize(
    ("plan", "width", "told"),
    [
        (ExecutionPlan(), 1, "optimizer of 75.3 GiB no longer fit"),
        (ExecutionPlan(tensor=8), 8, "activations of"),
        (ExecutionPlan(tensor=8, accumulation_steps=64), 8, ""),
    ],
)
def test_a_refusal_names_the_term(plan: ExecutionPlan, width: int, told: str) -> None:
    peak = peak_memory(PlanColumns.of([plan], [width]), LLAMA7, 64)
    text = peak.refusal(0, Fabric())
    assert text.startswith(told) and bool(text) == bool(told)
    assert bool(peak.fits(Fabric())[0]) is not bool(text)


def test_a_host_that_is_too_small_is_named() -> None:
    plan = ExecutionPlan(offload=True, recompute=True, accumulation_steps=64)
    peak = peak_memory(PlanColumns.of([plan], [1]), LLAMA7, 64)
    text = peak.refusal(0, Fabric(host_memory_bytes=100 * GIB))
    assert "does not fit into main memory, which has 12.5 per GPU" in text


@given(st.sampled_from(ALL), st.sampled_from(BATCHES), st.integers(1, 32))
def test_what_saves_memory_saves_its_own_term(shape: ModelShape, batch: int, width: int) -> None:
    plans = legal_plans(Bounds(shape=shape, batch=batch), (width,))
    without = replace(plans, recompute=plans.recompute & False, offload=plans.offload & False)
    all_with = replace(plans, recompute=plans.recompute | True, offload=plans.offload | True)
    plain, saving = peak_memory(without, shape, batch), peak_memory(all_with, shape, batch)
    assert np.isfinite(plain.terms).all() and (plain.terms >= 0).all()
    for term in ("gradients", "optimizer", "activations"):
        row = TERMS.index(term)
        assert (saving.terms[row] <= plain.terms[row]).all()


def test_the_largest_model_is_judged_at_once() -> None:
    bound = Bounds(shape=LLAMA70, batch=1024)
    plans = legal_plans(bound, tuple(range(1, 65)))
    fits = peak_memory(plans, LLAMA70, 1024).fits(Fabric())
    assert 0 < fits.sum() < len(plans)
    assert plans.width[fits].min() > 1
