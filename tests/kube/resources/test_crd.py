"""The definitions: equal to the models, and obeyed by a real API server.

Each rule is broken once. What the API server refuses comes with a remedy; what it takes, the
operator takes too.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kube.resources.sent import STRANGE, Jobs, a_queue, install_policies, wait_until
from tools.testcluster import ControlPlane
from tools.testcluster.rest import MERGE_PATCH
from weft.kube.names import jobs_path, queues_path
from weft.kube.resources import admission, crd
from weft.kube.resources.training_job import TrainingJobSpec, TrainingJobStatus, manifest
from weft.model.errors import WorldError
from weft.spec.job_file import JobSpec

CHART = Path(__file__).parents[3] / "charts" / "weft"
MODEL = {"parameters": 10**9, "layers": 24, "hidden": 2048, "sequence": 2048, "batch": 64}
JOB_HEADING = ["NAME", "STATE", "GPUS", "PROGRESS", "REASON", "AGE", "QUEUE", "MESSAGE"]
QUEUE_HEADING = ["NAME", "PARENT", "GUARANTEED", "LIMIT", "USED", "WAITING", "READY", "AGE"]


def test_the_files_are_up_to_date() -> None:
    for name, text in crd.manifests().items():
        assert (CHART / "crds" / name).read_text() == text
    assert admission.FILE.read_text() == admission.manifest()


def test_the_schema_is_one_that_api_servers_take() -> None:
    for definition in (crd.training_jobs(), crd.queues(), crd.wait_reports()):
        text = json.dumps(definition)
        for word in ("$ref", "$defs", "anyOf", "allOf", 'additionalProperties": false', "title"):
            assert f'"{word}' not in text


def test_every_field_of_the_job_file_is_there() -> None:
    spec = crd.schema_of(crd.training_jobs())["properties"]["spec"]
    assert set(spec["properties"]) == set(JobSpec.model_fields)
    assert spec["required"] == ["run"]
    assert all(part["description"] for part in spec["properties"].values())


# ------------------------------------------------------------------------------------ for real


@pytest.fixture
def jobs(api_server: ControlPlane) -> Jobs:
    api_server.add_namespace("team")
    return Jobs(api_server.api)


@pytest.fixture
def guarded(jobs: Jobs) -> Jobs:
    """With the policies that refuse unknown fields, once they are at work."""
    install_policies(jobs)
    return jobs


def test_defaults_are_written_down(jobs: Jobs) -> None:
    answer = jobs.create({"run": "x"})
    assert answer.status == 201
    assert answer.body["spec"] == {
        "run": "x",
        "resources": {"gpus": 1},
        "queue": "default",
        "priority": 0,
        "preemptible": True,
        "retry": {"limit": 3},
        "grace": "30s",
    }
    assert TrainingJobSpec.model_validate(answer.body["spec"]) == TrainingJobSpec(run="x")


@pytest.mark.parametrize(
    "spec",
    [
        {"run": "x", "resources": {"gpus": "4..16"}},
        {"run": "x", "resources": {"gpus": "8"}},
        {"run": "x", "resources": {"gpus": "0", "cpus": 0.5}},
        {"run": "x", "resources": {"gpus": 0, "cpus": 4, "memory": "1.5TiB"}},
        {"run": "x", "resources": {"gpu_type": ["H100", "A100"], "memory_per_gpu": "64GB"}},
        {"run": "x", "shareable": True, "stages": {"gpu_seconds": 1, "gpu_memory": "9GB"}},
        {"run": "x", "stages": {"cpu_seconds": 0.5, "gpu_seconds": 1, "step_seconds": 1}},
        {"run": "x", "model": MODEL},
        {"run": "x", "model": MODEL | {"vocabulary": 32_000, "heads": 16, "offers": ["tensor"]}},
        {"run": "x", "model": MODEL, "plans": {"data": "a ${HOME} {{print}} {data} {a,b}"}},
        {"run": "x", "model": MODEL, "plans": {"pipeline": "a {pipeline} {micro_batch}"}},
        {"run": "x", "grace": "9m59s", "ttl": "0s", "duration": "1d12h"},
        {"run": "x", "env": {"A": "$(B)", "_b1": ""}},
        {"run": "x", "volumes": [{"claim": "a.b", "path": "/.cache/x"}]},
        {"run": "x", "priority": 5.0, "image": None, "resources": None},
        {"run": "#" * 32_000},
    ],
)
def test_what_is_taken_the_operator_takes_too(jobs: Jobs, spec: dict[str, Any]) -> None:
    answer = jobs.create(spec)
    assert answer.status == 201, answer.message
    TrainingJobSpec.model_validate(answer.body["spec"])


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({}, "spec.run: Required value"),
        ({"run": ""}, "spec.run"),
        ({"run": " \n"}, "spec.run"),
        ({"run": "x" * 32_001}, "spec.run: Too long"),
        ({"run": "x", "resources": {"gpus": "16..4"}}, "write the smaller number first"),
        ({"run": "x", "resources": {"gpus": "4.."}}, "spec.resources.gpus"),
        ({"run": "x", "resources": {"gpus": -1}}, "spec.resources.gpus"),
        ({"run": "x", "resources": {"gpus": 100_000}}, "spec.resources.gpus"),
        ({"run": "x", "resources": {"gpus": 4.5}}, "spec.resources.gpus"),
        ({"run": "x", "resources": {"gpus": True}}, "spec.resources.gpus"),
        ({"run": "x", "resources": {"gpus": 0}}, "add resources.cpus"),
        ({"run": "x", "resources": {"gpus": 0, "cpus": 0}}, "spec.resources.cpus"),
        ({"run": "x", "resources": {"gpus": "0", "cpus": 1, "gpu_type": ["a"]}}, "remove them"),
        ({"run": "x", "resources": {"cpus": 4}}, "write these instead"),
        ({"run": "x", "resources": {"memory": "4GB"}}, "write these instead"),
        ({"run": "x", "resources": {"gpu_type": ["a", "a"]}}, "Duplicate value"),
        ({"run": "x", "resources": {"memory_per_gpu": "64G"}}, "memory_per_gpu"),
        ({"run": "x", "stages": {}}, "give the seconds of one step"),
        ({"run": "x", "stages": {"gpu_seconds": -1}}, "spec.stages.gpu_seconds"),
        ({"run": "x", "stages": {"gpu_seconds": 2, "step_seconds": 1}}, "raise step_seconds"),
        (
            {"run": "x", "shareable": True, "resources": {"gpus": 0, "cpus": 1}},
            "none to share: remove shareable",
        ),
        ({"run": "x", "model": {}}, "spec.model.parameters: Required value"),
        ({"run": "x", "model": MODEL | {"batch": 0}}, "spec.model.batch"),
        ({"run": "x", "model": MODEL | {"vocabulary": 10**7}}, "count all of the model"),
        ({"run": "x", "model": MODEL | {"offers": ["expert"]}}, "spec.model.offers"),
        ({"run": "x", "model": MODEL | {"offers": ["zero1"]}}, "give commands under plans"),
        ({"run": "x", "model": MODEL, "resources": {"gpus": 0, "cpus": 1}}, "remove model"),
        ({"run": "x", "plans": {"data": "a"}}, "add model"),
        ({"run": "x", "model": MODEL, "plans": {}}, "give one, or remove plans"),
        ({"run": "x", "model": MODEL, "plans": {"tensor": "a"}}, "put {tensor} where"),
        ({"run": "x", "model": MODEL, "plans": {"data": "a {pipeline}"}}, "put {micro_batches}"),
        ({"run": "x", "model": MODEL, "plans": {"data": "awk {print}"}}, "double the braces"),
        (
            {"run": "x", "model": MODEL | {"offers": ["data"]}, "plans": {"data": "a"}},
            "remove model.offers, or plans",
        ),
        ({"run": "x", "env": {"A-B": ""}}, "begins with no digit: rename it"),
        ({"run": "x", "env": {"A" * 129: ""}}, "rename it"),
        ({"run": "x", "env": {"RANK": "1"}}, "cannot be set by a job: remove it"),
        ({"run": "x", "env": {"WEFT_JOB": "1"}}, "cannot be set by a job: remove it"),
        ({"run": "x", "env": {"A": 1}}, "spec.env.A"),
        ({"run": "x", "env": {f"V{n}": "" for n in range(101)}}, "Too many"),
        ({"run": "x", "grace": "11m"}, "save within 10 minutes"),
        ({"run": "x", "ttl": "7"}, "spec.ttl"),
        ({"run": "x", "priority": 1001}, "spec.priority"),
        ({"run": "x", "volumes": [{"claim": "a", "path": "/dev/shm"}]}, "elsewhere"),
        ({"run": "x", "volumes": [{"claim": "a", "path": "/a/.."}]}, "path"),
        (
            {"run": "x", "volumes": [{"claim": "a", "path": "/a"}, {"claim": "b", "path": "/a"}]},
            "Duplicate value",
        ),
        ("x", "spec"),
        (None, "spec"),
    ],
)
def test_what_is_refused(jobs: Jobs, spec: object, said: str) -> None:
    answer = jobs.create(spec)
    assert answer.status == 422, answer.message
    assert said in answer.message


@pytest.mark.parametrize("name", ["a" * 51, "a.b"])
def test_a_name_that_pods_could_not_carry(jobs: Jobs, name: str) -> None:
    answer = jobs.create({"run": "x"}, name=name)
    assert answer.status == 422
    assert "choose another" in answer.message


def test_a_job_cannot_be_changed_but_can_be_marked(jobs: Jobs) -> None:
    assert jobs.create({"run": "x"}, name="7b").status == 201
    for change in ({"run": "y"}, {"priority": 1}, {"nodeName": "n0"}, {"env": {"A": "b"}}):
        answer = jobs.patch("7b", {"spec": change})
        assert answer.status == 422
        assert "cancel it and submit another" in answer.message
    assert (
        jobs.patch("7b", {"metadata": {"annotations": {"weft.dev/cancel": "true"}}}).status == 200
    )


def test_a_status_is_kept_apart_and_pruned(jobs: Jobs) -> None:
    created = jobs.create({"run": "x"}, name="vit", status={"state": "Running"})
    assert "status" not in created.body
    status = {
        "state": "Running",
        "gpus": 8,
        "progress": "37%",
        "decision": {"epoch": 1, "width": 8, "seats": [{"node": "n", "gpus": 8, "memoryGib": 1.5}]},
        "metrics": {"loss": 0.5},
        "conditions": [
            {
                "type": "Running",
                "status": "True",
                "reason": "Running",
                "lastTransitionTime": "2026-11-15T05:00:00Z",
                "observedGeneration": 1,
            }
        ],
    }
    answer = jobs.patch("vit", {"status": status | {"strange": 1}}, status=True)
    assert answer.body["status"] == status
    assert answer.body["metadata"]["generation"] == 1
    TrainingJobStatus.model_validate(answer.body["status"])
    assert jobs.patch("vit", {"status": {"state": "Sleeping"}}, status=True).status == 422
    assert jobs.patch("vit", {"status": {"startedAt": "noon"}}, status=True).status == 422


def test_a_list_shows_how_jobs_stand(jobs: Jobs, api_server: ControlPlane) -> None:
    jobs.create({"run": "x"}, name="vit")
    status = {"state": "Queued", "gpus": 0, "reason": "Capacity.Busy", "message": "wait"}
    jobs.patch("vit", {"status": status}, status=True)
    heading, row = api_server.kubectl("get", "tj", "-n", "team", "-o", "wide").splitlines()
    assert heading.split() == JOB_HEADING
    assert row.split()[:3] == ["vit", "Queued", "0"]
    assert "Capacity.Busy" in row
    selected = ("get", "tj", "-n", "team", "-o", "name", "--field-selector")
    assert api_server.kubectl(*selected, "status.state=Queued") == "trainingjob.weft.dev/vit\n"
    assert not api_server.kubectl(*selected, "status.state=Running,spec.queue=default")


# --------------------------------------------------------------------------- unknown fields


@pytest.mark.parametrize("query", ["", "?fieldValidation=Strict", "?fieldValidation=Ignore"])
@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (STRANGE, "spec.nodeName"),
        ({"run": "x", "resources": {"privileged": True}}, "spec.resources.privileged"),
        ({"run": "x", "retry": {"a": {"b": 1}}}, "spec.retry.a"),
        ({"run": "x", "checkpoint": {"pth": "/a"}}, "spec.checkpoint.pth"),
        (
            {"run": "x", "volumes": [{"claim": "a", "path": "/a", "hostPath": "/"}]},
            "spec.volumes[].hostPath",
        ),
    ],
)
def test_unknown_fields_are_refused_for_every_client(
    guarded: Jobs, spec: dict[str, Any], field: str, query: str
) -> None:
    answer = guarded.create(spec, query=query)
    assert answer.status == 422
    assert f"there is no field {field}: remove it" in answer.message


def test_unknown_fields_beside_the_spec_are_refused(guarded: Jobs) -> None:
    assert "no field queue" in guarded.create({"run": "x"}, queue="research").message
    assert guarded.create({"run": "x"}, name="vit").status == 201
    assert "no field queue" in guarded.patch("vit", {"queue": "research"}).message


def test_many_unknown_fields_are_refused_in_few_words(guarded: Jobs) -> None:
    answer = guarded.create({"run": "x"} | {f"strange-{n}": {"a": [1]} for n in range(1000)})
    assert answer.status == 422
    assert "many fields that do not exist" in answer.message


def test_kubectl_is_told_too(guarded: Jobs, api_server: ControlPlane, tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps(manifest("vit", STRANGE, namespace="team")))
    for more in ((), ("--server-side",)):
        with pytest.raises(WorldError, match=r"there is no field spec\.nodeName"):
            api_server.kubectl("apply", *more, "-f", str(file))


def test_an_object_from_before_the_policies_can_be_looked_after(jobs: Jobs) -> None:
    wait_until(lambda: jobs.create(STRANGE, query="?dryRun=All").status == 201)  # those of before
    assert jobs.create(STRANGE, name="old").body["spec"]["nodeName"] == "n0"
    install_policies(jobs)
    marked = jobs.patch("old", {"metadata": {"finalizers": ["weft.dev/workers"]}})
    assert marked.status == 200
    assert jobs.patch("old", {"status": {"state": "Failed"}}, status=True).status == 200
    assert jobs.patch("old", {"metadata": {"finalizers": []}}).status == 200
    assert jobs.api.send("DELETE", jobs_path("team", "old")).status == 200


# ----------------------------------------------------------------------------------- queues


@pytest.mark.parametrize(
    ("name", "spec", "said"),
    [
        ("q", {"guaranteed": 8, "limit": 4}, "raise the limit"),
        ("q", {"parent": "q"}, "name another"),
        ("q", {"parent": "a", "recipe": "las"}, "set it at the root"),
        ("q", {"recipe": "mine.py:las"}, "spec.recipe"),
        ("q", {"weight": 0}, "spec.weight"),
        ("q", {"max_slowdown": 0.5}, "spec.max_slowdown"),
        ("q", {"limit": -1}, "spec.limit"),
        ("q", {"namespaces": ["a", "a"]}, "Duplicate value"),
        ("q" * 64, {}, "choose a shorter one"),
        ("q", {"limits": 4}, "there is no field spec.limits"),
    ],
)
def test_a_queue_that_is_refused(guarded: Jobs, name: str, spec: object, said: str) -> None:
    body = a_queue({"metadata": {"name": name}, "spec": spec})
    answer = guarded.api.send("POST", queues_path(), body)
    assert answer.status == 422
    assert said in answer.message


def test_a_queue_that_is_taken(guarded: Jobs, api_server: ControlPlane) -> None:
    body = a_queue({"metadata": {"name": "research"}})
    answer = guarded.api.send("POST", queues_path(), body)
    assert answer.body["spec"] == {"borrowing": True, "weight": 1}
    spec = {"guaranteed": 4, "limit": 8, "recipe": "las(hold=600)", "namespaces": ["team"]}
    path = queues_path("research")
    assert guarded.api.send("PATCH", path, {"spec": spec}, MERGE_PATCH).status == 200
    heading = api_server.kubectl("get", "wq").splitlines()[0].split()
    assert heading == QUEUE_HEADING
