"""What must hold of any job file, however bent: it is refused with a hint, or goes all the way.

All the way means to the job that the scheduler would know, and to the pods made for it.
"""

import math
from typing import Any

from tests.kube.restricted import breaches
from tests.spec.hostile import Spec, unknown_fields
from weft.kube.pods import PodMaker, WorkerSettings
from weft.kube.resources.training_job import TrainingJobSpec
from weft.model.errors import SpecError
from weft.model.ids import JobId, NodeId, TenantId
from weft.model.placement import Seat
from weft.model.request import JobRequest
from weft.spec.document import parse_document
from weft.spec.job_file import JobSpec
from weft.spec.reading import parse_job_file, validated
from weft.spec.request import to_request

SETTINGS = WorkerSettings(default_image="busybox", report_url="http://weft:8080")


def check_spec(spec: Spec) -> bool:
    """Whether the spec is accepted; raises where it should have been refused, or cannot be used."""
    found = taken(spec)
    if found is None:
        return False
    assert unknown_fields(spec) == []
    check(found)
    return True


def check_text(text: bytes) -> bool:
    """Whether the file is accepted; raises where it should have been refused, or cannot be used."""
    try:
        found = parse_job_file(text)
    except SpecError as error:
        assert error.hint
        return False
    document = parse_document(text, name="again").value
    assert isinstance(document, dict)
    assert unknown_fields({k: v for k, v in document.items() if k != "name"}) == []
    check(found)
    return True


def taken(spec: Spec) -> TrainingJobSpec | None:
    try:
        return validated(TrainingJobSpec, spec)
    except SpecError as error:
        assert error.hint
        assert len(str(error)) < 1_000
        assert str(error).isprintable()
        return None


def job_for(spec: JobSpec) -> JobRequest:
    return to_request(spec, id=JobId("team/job"), tenant=TenantId("team"), submit_seconds=0.0)


def pods_for(spec: JobSpec, job: JobRequest) -> list[dict[str, Any]]:
    """As if the brain had given it its least width on one node or three."""
    maker = PodMaker(SETTINGS, namespace="team", name="job", uid="1", spec=spec)
    gpus = job.width.min_gpus
    shares = (gpus,) if gpus < 3 else (gpus - 2, 1, 1)
    seats = tuple(
        Seat(
            NodeId(f"node-{rank}"),
            share,
            job.cpus + share * job.cpus_per_gpu,
            job.memory_gib + share * job.memory_gib_per_gpu,
            number=rank,
        )
        for rank, share in enumerate(shares)
    )
    return maker.pods(epoch=1, seats=seats, leader=1)


def check(spec: JobSpec) -> None:
    job = job_for(spec)
    assert job.work is None or math.isfinite(job.work.amount)
    for pod in pods_for(spec, job):
        assert breaches(pod) == []
