"""An execution plan as an agent is told it, for a script that trains with the library."""

from weft.agent.plan import Plan
from weft.model.plan import AS_WRITTEN, ExecutionPlan, Sharding


def told(plan: ExecutionPlan, width: int) -> str:
    """For the agent; nothing where it is left to the job's own command."""
    if plan == AS_WRITTEN:
        return ""
    replicas = max(width // plan.gpus_per_replica, 1)
    sharded, degree = plan.sharding is Sharding.PARAMETERS, plan.shard_degree
    shard = 1 if not sharded else degree if degree and replicas % degree == 0 else replicas
    return str(
        Plan(
            pipeline=plan.pipeline,
            shard=shard,
            tensor=plan.tensor,
            micro_batches=plan.micro_batches,
        )
    )
