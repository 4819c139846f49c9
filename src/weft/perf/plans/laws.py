"""The laws of plans: what every plan keeps, and the sentence for each that one breaks.

The product of the degrees is the width. The global batch never changes: replicas, accumulation
steps and micro-batches divide it without a rest, so a plan decides how a step is computed and
never what is learnt by it. Tensor parallelism stays inside a node.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from weft.model.capability import EVERYTHING, NOT_YET, Offers, needs
from weft.model.errors import InfeasibleSpec, SpecError
from weft.model.plan import ExecutionPlan, Sharding
from weft.model.shape import ModelShape


class Law(StrEnum):
    """What is broken."""

    DEGREES = "degrees"
    WIDTH = "width"
    BATCH = "batch"
    NODE = "node"
    LAYERS = "layers"
    HEADS = "heads"
    SHARDS = "shards"
    OFFERED = "offered"


@dataclass(frozen=True, slots=True)
class Breach:
    """One law that a plan breaks, as a sentence."""

    law: Law
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What plans are proposed within: a model, its global batch, its program, and a node."""

    shape: ModelShape
    batch: int
    gpus_per_node: int = 8
    offers: Offers = EVERYTHING

    def __post_init__(self) -> None:
        if self.batch < 1 or self.gpus_per_node < 1:
            raise SpecError(
                f"a batch of {self.batch} on nodes of {self.gpus_per_node} GPUs cannot be",
                hint="give both as whole numbers of at least 1",
            )


def breaches(plan: ExecutionPlan, width: int, bounds: Bounds) -> tuple[Breach, ...]:
    """Every law that this plan breaks on so many GPUs; none if it is legal."""
    if wrong := tuple(_degrees(plan)):
        return wrong
    return tuple(_broken(plan, width, bounds))


def settled(plan: ExecutionPlan, width: int, bounds: Bounds) -> ExecutionPlan:
    """The plan itself if it is legal; an error that tells all that it breaks otherwise."""
    found = breaches(plan, width, bounds)
    if found:
        raise InfeasibleSpec(
            "; ".join(breach.text for breach in found),
            hint=f"choose degrees whose product is {width} and that divide the batch",
        )
    return plan


def _degrees(plan: ExecutionPlan) -> Iterator[Breach]:
    for name, least in (
        *(("data", 0), ("tensor", 1), ("pipeline", 1), ("accumulation_steps", 1)),
        *(("micro_batches", 1), ("shard_degree", 0), ("context", 1), ("expert", 1)),
    ):
        value = getattr(plan, name)
        if value < least:
            yield Breach(Law.DEGREES, f"{name} {value} is below {least}")


def _broken(plan: ExecutionPlan, width: int, bounds: Bounds) -> Iterator[Breach]:
    wanted = needs(replace(plan, data=plan.data or width // plan.gpus_per_replica))
    for capability in sorted(wanted.intersection(NOT_YET)):
        yield Breach(Law.OFFERED, NOT_YET[capability])
    missing = wanted.difference(bounds.offers, NOT_YET)
    if missing:
        yield Breach(Law.OFFERED, f"the program does not offer {', '.join(sorted(missing))}")
    if width < 1 or not plan.fits_width(width):
        shown = f"{plan.data or '?'} × {plan.tensor} × {plan.pipeline}"
        yield Breach(Law.WIDTH, f"data × tensor × pipeline is {shown}, which is not {width} GPUs")
        return
    yield from _of_batch(plan, width, bounds)
    yield from _of_model(plan, bounds)


def _of_batch(plan: ExecutionPlan, width: int, bounds: Bounds) -> Iterator[Breach]:
    data = width // plan.gpus_per_replica
    parts = data * plan.accumulation_steps * plan.micro_batches
    if bounds.batch % parts:
        yield Breach(
            Law.BATCH,
            f"a batch of {bounds.batch} does not divide into {data} replicas × "
            f"{plan.accumulation_steps} accumulation steps × {plan.micro_batches} micro-batches",
        )
    if plan.micro_batches > 1 and plan.pipeline == 1:
        yield Breach(Law.BATCH, "micro-batches flow through stages, and there is only one")
    degree = plan.shard_degree
    if degree and (plan.sharding is Sharding.NONE or data % degree or degree >= data):
        yield Breach(Law.SHARDS, f"{data} replicas do not share state in groups of {degree}")


def _of_model(plan: ExecutionPlan, bounds: Bounds) -> Iterator[Breach]:
    shape, node = bounds.shape, bounds.gpus_per_node
    if plan.tensor > node or node % plan.tensor:
        yield Breach(
            Law.NODE, f"{plan.tensor} tensor ranks do not stay inside a node of {node} GPUs"
        )
    if shape.attention_heads % plan.tensor:
        yield Breach(
            Law.HEADS, f"{shape.attention_heads} heads do not divide into {plan.tensor} ranks"
        )
    if shape.layers % plan.pipeline:
        yield Breach(Law.LAYERS, f"{shape.layers} layers do not divide into {plan.pipeline} stages")
