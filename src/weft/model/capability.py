"""What a job's program can run: no plan is proposed that its program does not offer.

The runtime tells it, or the job file does. Without hints about its layers a program can be
replicated, sharded, accumulated and recomputed, and neither split by tensors nor into stages.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from weft.model.plan import ExecutionPlan, Sharding


class Capability(StrEnum):
    """One way of laying a computation over GPUs."""

    DATA = "data"
    ZERO1 = "zero1"
    ZERO2 = "zero2"
    FSDP2 = "fsdp2"
    HYBRID = "hybrid"
    TENSOR = "tensor"
    PIPELINE = "pipeline"
    ACCUMULATION = "accumulation"
    RECOMPUTE = "recompute"
    OFFLOAD = "offload"
    CONTEXT = "context"
    EXPERT = "expert"


def capabilities(names: Collection[object]) -> tuple[Capability, ...]:
    """Those of them that exist."""
    return tuple(one for one in Capability if one.value in names)


Offers = frozenset[Capability]

NOT_YET = {
    Capability.CONTEXT: "no program splits a sequence over GPUs yet (context parallelism)",
    Capability.EXPERT: "no program spreads experts over GPUs yet (expert parallelism)",
}
"""Named, and refused with this sentence."""

EVERYTHING: Offers = frozenset(Capability).difference(NOT_YET)
WITHOUT_HINTS: Offers = frozenset(
    {
        Capability.DATA,
        Capability.ZERO1,
        Capability.FSDP2,
        Capability.ACCUMULATION,
        Capability.RECOMPUTE,
    }
)

OF_SHARDING = {
    Sharding.OPTIMIZER: Capability.ZERO1,
    Sharding.GRADIENTS: Capability.ZERO2,
    Sharding.PARAMETERS: Capability.FSDP2,
}


def needs(plan: ExecutionPlan) -> Offers:
    """What a program must offer to run this plan; one GPU needs nothing."""
    found = {OF_SHARDING[plan.sharding]} if plan.sharding is not Sharding.NONE else set()
    switches = {
        Capability.DATA: plan.data > 1,
        Capability.HYBRID: plan.shard_degree > 0,
        Capability.TENSOR: plan.tensor > 1,
        Capability.PIPELINE: plan.pipeline > 1 or plan.micro_batches > 1,
        Capability.ACCUMULATION: plan.accumulation_steps > 1,
        Capability.RECOMPUTE: plan.recompute,
        Capability.OFFLOAD: plan.offload,
        Capability.CONTEXT: plan.context > 1,
        Capability.EXPERT: plan.expert > 1,
    }
    return frozenset(found | {one for one, needed in switches.items() if needed})


@dataclass(frozen=True, slots=True)
class PlanFamily:
    """Plans that one command of a job can be started with: sharded so, and needing no more."""

    name: str
    sharding: Sharding
    offers: tuple[Capability, ...]

    def carries(self, plan: ExecutionPlan, width: int) -> bool:
        """Whether the command can be told this plan; one replica shares nothing, however told."""
        alone = (plan.data or width // plan.gpus_per_replica) <= 1
        return needs(plan) <= set(self.offers) and (alone or plan.sharding is self.sharding)
