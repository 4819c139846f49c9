"""Thousands of hostile job files: none crashes the reader, none leaves the profile."""

import json
from random import Random

from tests.kube.resources.fuzzing import check_spec, check_text, job_for, pods_for, taken
from tests.kube.resources.sent import Jobs, install_policies
from tests.spec.hostile import Spec, specs, texts, unknown_fields
from tools.testcluster import ControlPlane
from weft.kube.names import pods_path
from weft.kube.resources.training_job import TrainingJobSpec

SPECS = 800
TEXTS = 400
SENT = 100


def test_no_spec_gets_through_that_should_not() -> None:
    accepted = sum(map(check_spec, specs(Random(4), SPECS)))
    assert SPECS * 0.2 < accepted < SPECS * 0.8


def test_no_text_gets_through_that_should_not() -> None:
    accepted = sum(map(check_text, texts(Random(5), TEXTS)))
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
