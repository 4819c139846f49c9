"""What a job asks of the brain, worked out once from its spec, which never changes."""

from dataclasses import dataclass, replace

from weft.kube.gpu_names import short_name
from weft.kube.node_rules import type_taint
from weft.kube.resources.training_job import TrainingJobSpec
from weft.model.errors import SpecError
from weft.model.ids import JobId, TenantId
from weft.model.request import JobRequest
from weft.model.suit import Demand
from weft.spec.job_file import JobSpec
from weft.spec.request import to_request


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """The request, or why there can be none."""

    request: JobRequest | None
    fault: str = ""


def parse_request(
    spec: TrainingJobSpec | None, fault: str, *, namespace: str, name: str, at: float
) -> ParsedRequest:
    """What the spec of a job that was created `at` asks for."""
    if spec is None:
        return ParsedRequest(None, fault)
    id, tenant = JobId(f"{namespace}/{name}"), TenantId(namespace)
    try:
        request = to_request(spec, id=id, tenant=tenant, submit_seconds=at)
    except SpecError as error:
        return ParsedRequest(None, str(error))
    return ParsedRequest(replace(request, demand=_demand(spec)))


def _demand(spec: JobSpec) -> Demand:
    """What its nodes must have, and which it may go to that are not for everybody."""
    types = (type_taint(short_name(name)) for name in spec.resources.gpu_type or ())
    devices = spec.resources.devices_per_gpu or {}
    return Demand(tuple(devices.items()), (*spec.tolerations, *types))
