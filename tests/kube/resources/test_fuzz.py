"""Twenty thousand hostile specs: none crashes the reader, none leaves the profile, none sneaks in.

What is accepted goes all the way: to the job that the brain would know, and to the pods that would
be created for it.
"""

import json
import math
import time
from random import Random
from typing import Any

import pytest

from tests.kube.resources.sent import Jobs, install_policies
from tests.kube.restricted import breaches
from tests.spec.hostile import Spec, specs, texts, unknown_fields
from tools.testcluster import ControlPlane
from weft.kube.names import pods_path
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

SPECS = 15_000
TEXTS = 5_000
SENT = 400
SETTINGS = WorkerSettings(default_image="busybox", report_url="http://weft:8080")


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


@pytest.mark.slow
def test_no_spec_gets_through_that_should_not() -> None:
    accepted = 0
    begin = time.monotonic()
    for spec in specs(Random(4), SPECS):
        found = taken(spec)
        if found is None:
            continue
        accepted += 1
        assert unknown_fields(spec) == []
        check(found)
    assert SPECS * 0.2 < accepted < SPECS * 0.8
    assert time.monotonic() - begin < 60


@pytest.mark.slow
def test_no_text_gets_through_that_should_not() -> None:
    accepted = 0
    for text in texts(Random(5), TEXTS):
        try:
            found = parse_job_file(text)
        except SpecError as error:
            assert error.hint
            continue
        accepted += 1
        document = parse_document(text, name="again").value
        assert isinstance(document, dict)
        assert unknown_fields({k: v for k, v in document.items() if k != "name"}) == []
        check(found)
    assert TEXTS * 0.05 < accepted < TEXTS * 0.8


def test_the_api_server_agrees(cluster: ControlPlane) -> None:
    """It stores nothing unknown, takes what the operator takes, and lets the pods in."""
    cluster.add_namespace("team", {"pod-security.kubernetes.io/enforce": "restricted"})
    account, order = {"metadata": {"name": "trainer"}}, {"metadata": {"name": "training.low"}}
    cluster.api.must("POST", "/api/v1/namespaces/team/serviceaccounts", account)
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    cluster.api.must("POST", classes, {**order, "value": 1})
    jobs = Jobs(cluster.api)
    install_policies(jobs)
    stored = 0
    for number, spec in enumerate(specs(Random(6), SENT)):
        answer = jobs.create(
            _sendable(spec), name=f"fuzz-{number}", query="?fieldValidation=Ignore"
        )
        if answer.status == 201:
            stored += 1
            assert unknown_fields(answer.body["spec"]) == []
            _let_in(jobs, TrainingJobSpec.model_validate(answer.body["spec"]))
        else:
            assert answer.status in (400, 422), answer
        found = taken(spec)
        if found is not None:
            plain = found.model_dump(mode="json", exclude_unset=True)
            assert jobs.create(plain, query="?dryRun=All").status == 201
    assert SENT * 0.2 < stored < SENT * 0.8


def _sendable(spec: Spec) -> Spec:
    """What JSON can carry of it."""
    found: Spec = json.loads(json.dumps(spec, default=repr))
    return found


def _let_in(jobs: Jobs, spec: TrainingJobSpec) -> None:
    if spec.service_account:
        account = {"metadata": {"name": spec.service_account}}
        jobs.api.send("POST", "/api/v1/namespaces/team/serviceaccounts", account)
    for pod in pods_for(spec, job_for(spec)):
        answer = jobs.api.send("POST", pods_path("team") + "?dryRun=All", pod)
        assert answer.status == 201, answer.message
