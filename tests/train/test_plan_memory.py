"""The memory model beside models that really train: weights, gradients and moments to the byte."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.distributed.fsdp import fully_shard

from tests.train import plan_models as training
from weft.model.plan import ExecutionPlan, Sharding
from weft.model.shape import SINGLE, ModelShape
from weft.perf.plans.columns import PlanColumns
from weft.perf.plans.memory import TERMS, block_activation_bytes, peak_memory

SHAPES = (
    ModelShape(parameters=10**9, layers=4, hidden=128, sequence=64, vocabulary=500, heads=4),
    ModelShape(parameters=10**9, layers=2, hidden=256, sequence=128, vocabulary=1000, heads=8),
    ModelShape(
        parameters=10**9,
        layers=6,
        hidden=96,
        sequence=192,
        vocabulary=300,
        heads=6,
        feed_forward=192,
    ),
)
WORLD = 4
MOST_UNDER, MOST_OVER = -0.05, 0.08


@pytest.fixture(params=SHAPES, ids=lambda shape: f"hidden {shape.hidden}")
def shape(request: pytest.FixtureRequest) -> ModelShape:
    found: ModelShape = request.param
    return replace(found, parameters=training.parameters(found))


def foretold(plan: ExecutionPlan, width: int, shape: ModelShape, batch: int) -> dict[str, float]:
    peak = peak_memory(PlanColumns.of([plan], [width]), shape, batch, SINGLE)
    return dict(zip(TERMS, peak.terms[:, 0].tolist(), strict=True))


def kept(
    shape: ModelShape, samples: int, *, blocks: int, ranks: int = 1, recompute: bool = False
) -> float:
    """What blocks are foretold to keep at the end of a forward pass."""
    whole = float(block_activation_bytes(shape, SINGLE, np.array([ranks]))[0])
    return samples * blocks * (passed(shape) if recompute else whole)


def passed(shape: ModelShape) -> int:
    """Of one sample, from block to block."""
    return shape.sequence * shape.hidden * SINGLE.activation


def at_head(shape: ModelShape, samples: int) -> int:
    """Inputs of its norm and of itself, and the probabilities."""
    return samples * (2 * passed(shape) + SINGLE.activation * shape.sequence * shape.vocabulary)


def within(foretold_bytes: float, measured_bytes: float) -> bool:
    return MOST_UNDER <= foretold_bytes / measured_bytes - 1.0 <= MOST_OVER


@pytest.mark.parametrize("recompute", [False, True])
def test_one_gpu(shape: ModelShape, recompute: bool) -> None:
    samples = 3
    model = training.Stage(shape, blocks=shape.layers, recompute=recompute)
    inputs = training.tokens(shape, samples)
    said = foretold(ExecutionPlan(recompute=recompute), 1, shape, samples)
    measured = training.kept_bytes(model, lambda: training.loss_of(model, inputs))
    told = kept(shape, samples, blocks=shape.layers, recompute=recompute)
    assert within(told + at_head(shape, samples), measured)
    weights, gradients, moments = training.state_bytes(model, inputs)
    assert (said["weights"], said["gradients"], said["optimizer"]) == (weights, gradients, moments)


@pytest.mark.parametrize("samples", [1, 4])
@pytest.mark.parametrize("recompute", [False, True])
def test_the_peak_of_a_whole_step(shape: ModelShape, samples: int, recompute: bool) -> None:
    model = training.Stage(shape, blocks=shape.layers, recompute=recompute)
    measured = training.peak_bytes(model, training.tokens(shape, samples))
    said = foretold(ExecutionPlan(recompute=recompute), 1, shape, samples)
    state = said["weights"] + said["gradients"] + said["optimizer"]
    passing = said["activations"] + said["logits"] + said["working"]
    assert within(state + passing, state + measured)
    assert within(passing, measured)


def test_accumulation_holds_one_pass_at_a_time(shape: ModelShape) -> None:
    model = training.Stage(shape, blocks=shape.layers)
    inputs = training.tokens(shape, 2)
    measured = training.kept_bytes(model, lambda: training.loss_of(model, inputs))
    said = foretold(ExecutionPlan(accumulation_steps=4), 1, shape, 8)
    assert within(said["activations"] + said["logits"], measured)


def test_parameters_shared_out_among_four(shape: ModelShape) -> None:
    inputs = training.tokens(shape, 1)
    with training.pretended(WORLD) as mesh:
        model = training.Stage(shape, blocks=shape.layers)
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        state = training.state_bytes(model, inputs)
        measured = training.kept_bytes(model, lambda: training.loss_of(model, inputs))
    plan = ExecutionPlan(sharding=Sharding.PARAMETERS)
    said = foretold(plan, WORLD, shape, WORLD)
    # The head stays gathered behind the forward pass, and autograd holds it.
    head = SINGLE.weight * shape.head_parameters
    told = kept(shape, 1, blocks=shape.layers) + at_head(shape, 1)
    assert within(told + head, measured)
    for term, held in zip(("weights", "gradients", "optimizer"), state, strict=True):
        assert said[term] == pytest.approx(held, rel=0.01)


def test_blocks_split_by_tensors(shape: ModelShape) -> None:
    batch, ranks = 2, 2
    inner = torch.randn(batch, shape.sequence, shape.hidden, requires_grad=True)
    with training.pretended(ranks) as mesh:
        stage = training.Stage(shape, blocks=shape.layers, embeds=False, heads=False)
        training.split(stage, mesh)
        measured = training.kept_bytes(stage, lambda: training.loss_of(stage, inner))
    assert within(kept(shape, batch, blocks=shape.layers, ranks=ranks), measured)


@pytest.mark.parametrize("micro_batches", [2, 4])
def test_the_first_of_two_stages_holds_what_is_on_its_way(
    shape: ModelShape, micro_batches: int
) -> None:
    model = training.Stage(shape, blocks=shape.layers // 2, heads=False)
    inputs = training.tokens(shape, 1)
    ahead = min(2, micro_batches)
    measured = training.kept_bytes(
        model, lambda: [training.loss_of(model, inputs) for _ in range(ahead)]
    )
    plan = ExecutionPlan(pipeline=2, micro_batches=micro_batches)
    left = shape.parameters - shape.embedding_parameters - shape.head_parameters
    said = foretold(plan, 2, replace(shape, parameters=left, vocabulary=0), micro_batches)
    assert within(said["activations"], measured)
