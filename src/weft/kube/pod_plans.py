"""The plan of a decision in the pods that are made for it.

A job that has commands by plan is started by that of its plan. Of any other one the agent is told
the degrees that it begins with; a script that does not speak to Weft does not look at them.
"""

from typing import Any, Final

from weft.kube.pod_environment import literal
from weft.kube.pods import Manifest
from weft.model.plan import AS_WRITTEN, ExecutionPlan
from weft.reconcile.plans import told
from weft.spec.job_file import JobSpec

VARIABLE: Final = "WEFT_BEGIN_PLAN"


def with_plan(pod: Manifest, spec: JobSpec, plan: ExecutionPlan | None, width: int) -> Manifest:
    """The pod as it begins under this plan; itself where that is left to the job's own command."""
    if plan is None or plan == AS_WRITTEN:
        return pod
    (container,) = pod["spec"]["containers"]
    changed = _changed(container, spec, plan, width)
    return {**pod, "spec": {**pod["spec"], "containers": [{**container, **changed}]}}


def _changed(container: Manifest, spec: JobSpec, plan: ExecutionPlan, width: int) -> dict[str, Any]:
    if spec.plans is None or spec.model is None:
        return {"env": [*container["env"], {"name": VARIABLE, "value": told(plan, width)}]}
    command = spec.plans.run(plan, gpus=width, batch=spec.model.batch)
    if command is None:
        return {}
    return {"command": [*container["command"][:-1], literal(command)]}
