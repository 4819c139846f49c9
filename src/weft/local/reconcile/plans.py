"""An execution plan as the scheduler decides it, on record, and as an agent is told it.

A script that trains with the library is told degrees, and may be told others while it runs. One
that has commands by plan is started by another command: its agent knows nothing of plans, and all
of the plan is on record, with `data` in front of it.
"""

from dataclasses import fields
from typing import Final

from weft.agent.plan import REPLICATED, parse_plan
from weft.model.errors import SpecError
from weft.model.plan import AS_WRITTEN, ExecutionPlan, Sharding
from weft.reconcile.plans import told
from weft.spec.job_file import JobSpec

COUNTED: Final = "data="


def recorded(plan: ExecutionPlan, width: int, spec: JobSpec) -> str:
    """What the record says of it; nothing where it is left to the job's own command."""
    return told(plan, width) if spec.plans is None else counted(plan, width)


def counted(plan: ExecutionPlan, width: int) -> str:
    """All of it: `data=4,tensor=2,sharding=optimizer,recompute=1`."""
    if plan == AS_WRITTEN:
        return ""
    usual = ExecutionPlan()
    given = {field.name: getattr(plan, field.name) for field in fields(plan)}
    given["data"] = plan.data or max(width // plan.gpus_per_replica, 1)
    shown = (f"{name}={_cell(value)}" for name, value in given.items() if value != _of(usual, name))
    return ",".join(shown)


def believed(text: str, width: int = 0) -> ExecutionPlan | None:
    """What is on record, for a brain that does not remember; None if nothing is."""
    if not text:
        return None
    if is_counted(text):
        return _read(text)
    plan = parse_plan(text)
    if plan == REPLICATED:
        return AS_WRITTEN
    replicas = width // (plan.tensor * plan.pipeline)
    return ExecutionPlan(
        data=replicas,
        tensor=plan.tensor,
        pipeline=plan.pipeline,
        sharding=Sharding.PARAMETERS if plan.shard > 1 else Sharding.NONE,
        shard_degree=plan.shard if 1 < plan.shard != replicas else 0,
        micro_batches=plan.micro_batches,
    )


def command(spec: JobSpec, plan: str, width: int) -> str:
    """What the job is started with under the plan on record."""
    if spec.plans is None or spec.model is None or not is_counted(plan):
        return spec.run
    found = spec.plans.run(_read(plan), gpus=width, batch=spec.model.batch)
    return spec.run if found is None else found


def is_counted(text: str) -> bool:
    """Whether it is for a command, and nothing that an agent could be told."""
    return text.startswith(COUNTED)


def same(text: str, other: str) -> bool:
    """A job's own command replicates, unless it says otherwise."""
    return (text or str(REPLICATED)) == (other or str(REPLICATED))


def _of(plan: ExecutionPlan, name: str) -> object:
    return getattr(plan, name)


def _cell(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _read(text: str) -> ExecutionPlan:
    usual = ExecutionPlan()
    found: dict[str, object] = {}
    try:
        for name, value in (part.split("=", 1) for part in text.split(",")):
            kind = type(getattr(usual, name))
            found[name] = Sharding(value) if kind is Sharding else kind(int(value))
    except (AttributeError, ValueError) as error:
        raise SpecError(f"{text!r} is no plan", hint="the record was changed by hand") from error
    return ExecutionPlan(**found)  # type: ignore[arg-type]  # checked by name above
