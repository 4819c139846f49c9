"""An execution plan: how a job's computation is laid over its GPUs.

Rubick's point is that the plan is a decision like the width, not a property of the job. A
decision therefore carries a plan from the first day; a recipe that does not choose one leaves
`AS_WRITTEN`, which says: whatever the job's own command does.
"""

from dataclasses import dataclass
from enum import StrEnum


class Sharding(StrEnum):
    """What data-parallel replicas share out among themselves (ZeRO's stages; the last is FSDP2)."""

    NONE = "none"
    OPTIMIZER = "optimizer"
    GRADIENTS = "gradients"
    PARAMETERS = "parameters"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPlan:
    """Degrees of parallelism; 0 for `data` means: as many replicas as the width gives.

    `context` (a sequence that is split over GPUs) and `expert` are named so that a program that
    offers them can be described; no plan with them is proposed yet.
    """

    data: int = 0
    tensor: int = 1
    pipeline: int = 1
    sharding: Sharding = Sharding.NONE
    accumulation_steps: int = 1
    recompute: bool = False
    offload: bool = False
    micro_batches: int = 1
    """Parts in which a batch flows through the stages of a pipeline."""

    shard_degree: int = 0
    """Replicas that share one copy of the state among them (hybrid); 0 means all."""

    context: int = 1
    expert: int = 1

    @property
    def gpus_per_replica(self) -> int:
        """GPUs that hold one copy of the model."""
        return self.tensor * self.pipeline * self.context

    @property
    def text(self) -> str:
        """As a person reads it: `data 2 × tensor 8, gradients shared out, recomputed`."""
        return "as written" if self == ExecutionPlan() else _text(self)

    def fits_width(self, width: int) -> bool:
        """Whether `width` GPUs divide into whole replicas of this plan."""
        if self.data:
            return width == self.data * self.gpus_per_replica
        return width % self.gpus_per_replica == 0


def _text(plan: ExecutionPlan) -> str:
    degrees = {"data": plan.data, "tensor": plan.tensor, "pipeline": plan.pipeline}
    parts = [" × ".join(f"{name} {degree}" for name, degree in degrees.items() if degree > 1)]
    if plan.sharding is not Sharding.NONE:
        shards = f" by {plan.shard_degree}" if plan.shard_degree else ""
        parts.append(f"{plan.sharding.value} shared out{shards}")
    counts = {"accumulation": plan.accumulation_steps, "micro-batches": plan.micro_batches}
    parts += [f"{name} {count}" for name, count in counts.items() if count > 1]
    switches = {"recomputed": plan.recompute, "offloaded": plan.offload}
    parts += [name for name, on in switches.items() if on]
    return ", ".join(part for part in parts if part) or "one GPU"


AS_WRITTEN = ExecutionPlan()
