"""An execution plan as the scheduler decides it, and as an agent on this machine is told it."""

from weft.agent.plan import REPLICATED, Plan, parse_plan
from weft.model.plan import AS_WRITTEN, ExecutionPlan, Sharding


def told(plan: ExecutionPlan, width: int) -> str:
    """For the agent; nothing where it is left to the job's own command."""
    if plan == AS_WRITTEN:
        return ""
    replicas = max(width // plan.gpus_per_replica, 1)
    sharded = plan.sharding is Sharding.PARAMETERS
    shard = (plan.shard_degree or plan.data or replicas) if sharded else 1
    return str(
        Plan(
            pipeline=plan.pipeline,
            shard=shard,
            tensor=plan.tensor,
            micro_batches=plan.micro_batches,
        )
    )


def believed(text: str) -> ExecutionPlan | None:
    """What was told, for a brain that does not remember; None if nothing was."""
    if not text:
        return None
    plan = parse_plan(text)
    if plan == REPLICATED:
        return AS_WRITTEN
    return ExecutionPlan(
        tensor=plan.tensor,
        pipeline=plan.pipeline,
        sharding=Sharding.PARAMETERS if plan.shard > 1 else Sharding.NONE,
        shard_degree=plan.shard if plan.shard > 1 else 0,
        micro_batches=plan.micro_batches,
    )


def same(text: str, other: str) -> bool:
    """A job's own command replicates, unless it says otherwise."""
    return (text or str(REPLICATED)) == (other or str(REPLICATED))
