"""Laws of plans: every proposed plan keeps them, and each that is broken has its sentence."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.plans.shapes import ALL, BERT, LLAMA7
from weft.model.capability import EVERYTHING, WITHOUT_HINTS, Capability, needs
from weft.model.errors import InfeasibleSpec, SpecError
from weft.model.plan import AS_WRITTEN, ExecutionPlan, Sharding
from weft.model.shape import ModelShape
from weft.perf.plans.laws import Bounds, Law, breaches, settled
from weft.perf.plans.space import legal_plans

BOUNDS = Bounds(shape=LLAMA7, batch=64)


@st.composite
def bounds(draw: st.DrawFn) -> Bounds:
    return Bounds(
        shape=draw(st.sampled_from(ALL)),
        batch=draw(st.integers(1, 200)),
        gpus_per_node=draw(st.sampled_from([1, 2, 3, 4, 6, 8])),
        offers=frozenset(draw(st.sets(st.sampled_from(sorted(EVERYTHING))))),
    )


@given(bounds(), st.integers(1, 48), st.randoms(use_true_random=False))
def test_every_proposed_plan_keeps_every_law(bound: Bounds, width: int, chance: Random) -> None:
    plans = list(legal_plans(bound, (width,)))
    for plan in chance.sample(plans, min(len(plans), 30)):
        assert plan.data * plan.tensor * plan.pipeline == width
        parts = plan.data * plan.accumulation_steps * plan.micro_batches
        samples, rest = divmod(bound.batch, parts)
        assert rest == 0
        assert samples * parts == bound.batch
        assert bound.gpus_per_node % plan.tensor == 0
        assert needs(plan) <= bound.offers
        assert breaches(plan, width, bound) == ()


@given(bounds(), st.integers(1, 24))
def test_no_plan_is_proposed_twice(bound: Bounds, width: int) -> None:
    plans = list(legal_plans(bound, (width,)))
    assert len(set(plans)) == len(plans)


DEGREE = st.integers(1, 6)


@given(
    st.builds(
        ExecutionPlan,
        data=DEGREE,
        tensor=DEGREE,
        pipeline=DEGREE,
        accumulation_steps=DEGREE,
        micro_batches=DEGREE,
        sharding=st.sampled_from(Sharding),
        recompute=st.booleans(),
        offload=st.booleans(),
        shard_degree=st.integers(0, 4),
    ),
    st.integers(1, 32),
    bounds(),
)
def test_a_legal_plan_is_proposed_unless_another_is_never_worse(
    plan: ExecutionPlan, width: int, bound: Bounds
) -> None:
    if breaches(plan, width, bound):
        return
    accumulates_in_stages = plan.pipeline > 1 and plan.accumulation_steps > 1
    shares_with_nobody = plan.data == 1 and plan.sharding is not Sharding.NONE
    half_hybrid = plan.shard_degree == 1 or (
        plan.shard_degree > 0 and plan.sharding is not Sharding.PARAMETERS
    )
    proposed = plan in set(legal_plans(bound, (width,)))
    assert proposed or accumulates_in_stages or shares_with_nobody or half_hybrid


@pytest.mark.parametrize(
    ("plan", "width", "law", "text"),
    [
        (ExecutionPlan(data=2, tensor=4), 16, Law.WIDTH, "2 × 4 × 1, which is not 16 GPUs"),
        (ExecutionPlan(tensor=3), 8, Law.WIDTH, "not 8 GPUs"),
        (ExecutionPlan(), 0, Law.WIDTH, "not 0 GPUs"),
        (ExecutionPlan(data=3), 3, Law.BATCH, "a batch of 64 does not divide into 3 replicas"),
        (ExecutionPlan(micro_batches=2), 1, Law.BATCH, "there is only one"),
        (ExecutionPlan(tensor=16), 16, Law.NODE, "16 tensor ranks do not stay inside a node of 8"),
        (ExecutionPlan(pipeline=3), 3, Law.LAYERS, "32 layers do not divide into 3 stages"),
        (ExecutionPlan(context=2), 2, Law.OFFERED, "no program splits a sequence over GPUs yet"),
        (ExecutionPlan(data=2, expert=2), 2, Law.OFFERED, "no program spreads experts"),
        (ExecutionPlan(data=-1), 1, Law.DEGREES, "data -1 is below 0"),
        (ExecutionPlan(shard_degree=2), 4, Law.SHARDS, "in groups of 2"),
        (
            ExecutionPlan(sharding=Sharding.PARAMETERS, shard_degree=3),
            4,
            Law.SHARDS,
            "4 replicas do not share state in groups of 3",
        ),
    ],
)
def test_a_broken_law_is_told(plan: ExecutionPlan, width: int, law: Law, text: str) -> None:
    told = {breach.law: breach.text for breach in breaches(plan, width, BOUNDS)}
    assert text in told[law]
    with pytest.raises(InfeasibleSpec) as caught:
        settled(plan, width, BOUNDS)
    assert caught.value.hint


def test_heads_bound_tensor_ranks() -> None:
    odd = ModelShape(parameters=10**9, layers=4, hidden=1600, sequence=10, heads=25)
    bound = Bounds(shape=odd, batch=8)
    assert [breach.law for breach in breaches(ExecutionPlan(tensor=2), 2, bound)] == [Law.HEADS]
    assert {plan.tensor for plan in legal_plans(bound, tuple(range(1, 17)))} == {1}


def test_a_program_without_hints_is_neither_split_nor_staged() -> None:
    bound = Bounds(shape=BERT, batch=64, offers=WITHOUT_HINTS)
    plans = list(legal_plans(bound, (8,)))
    assert {(plan.tensor, plan.pipeline, plan.offload) for plan in plans} == {(1, 1, False)}
    assert Sharding.GRADIENTS not in {plan.sharding for plan in plans}
    told = breaches(ExecutionPlan(tensor=2, offload=True), 8, bound)
    assert [one.text for one in told] == ["the program does not offer offload, tensor"]


def test_a_program_that_offers_nothing_runs_on_one_gpu() -> None:
    bound = Bounds(shape=BERT, batch=64, offers=frozenset())
    assert list(legal_plans(bound, (1, 2, 4))) == [ExecutionPlan(data=1)]
    assert settled(AS_WRITTEN, 1, bound) is AS_WRITTEN


def test_what_is_named_but_not_offered_is_never_proposed() -> None:
    eager = Bounds(shape=BERT, batch=8, offers=frozenset(Capability))
    assert not any(plan.context > 1 or plan.expert > 1 for plan in legal_plans(eager, (4,)))
    assert breaches(ExecutionPlan(context=4), 4, eager)[0].law is Law.OFFERED


@pytest.mark.parametrize(
    "wrong",
    [{"parameters": 0}, {"layers": -1}, {"vocabulary": 10**6}, {"heads": 6, "kv_heads": 4}],
)
def test_a_shape_that_cannot_be(wrong: dict[str, Any]) -> None:
    right = ModelShape(parameters=10**8, layers=4, hidden=768, sequence=128)
    with pytest.raises(SpecError) as caught:
        replace(right, **wrong)
    assert caught.value.hint


def test_a_batch_that_cannot_be() -> None:
    with pytest.raises(SpecError):
        Bounds(shape=BERT, batch=0)
