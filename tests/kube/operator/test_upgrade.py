"""Two versions lead in turn, forward and back, under load: no job is disturbed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.kube.installed import CHART, install_chart
from tests.kube.newer_version import FIELD, bring_newer, restore, take_back
from tests.kube.operators import Lab, OperatorProcess, wait_until
from tools.testcluster import ControlPlane
from tools.testcluster.rest import Answer

LEASE = "/apis/coordination.k8s.io/v1/namespaces/weft-system/leases/weft-operator"
NEWER = {"WEFT_TEST_NEWER": "1"}
GUARDED = {"lending": True}  # as the chart says where it brings its policies


@pytest.fixture
def lab(cluster: ControlPlane) -> Iterator[Lab]:
    cluster.add_nodes(2, gpus=8)
    yield Lab(cluster)


def leads(cluster: ControlPlane, name: str) -> bool:
    found: Answer = cluster.api.send("GET", LEASE)
    return found.status == 200 and found.body["spec"].get("holderIdentity") == name


def uids(lab: Lab) -> dict[str, str]:
    """Of all workers; whoever was disturbed has another."""
    return {name: pod["metadata"]["uid"] for name, pod in lab.pods().items()}


def understood(lab: Lab, name: str) -> str:
    conditions = lab.job(name).get("status", {}).get("conditions", ())
    return next((c["status"] for c in conditions if c["type"] == "Understood"), "True")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_upgrade_and_its_rollback_disturb_nobody(
    cluster: ControlPlane, lab: Lab, tmp_path: Path
) -> None:
    kubeconfig = install_chart(cluster)
    old = OperatorProcess(kubeconfig, tmp_path, name="old", options=GUARDED).start()
    lab.submit("before", 4)
    lab.submit("gang", 8)
    lab.await_workers("before")
    lab.await_workers("gang")
    ran = uids(lab)

    older = bring_newer(cluster)
    try:
        with OperatorProcess(kubeconfig, tmp_path, name="new", options=GUARDED, environment=NEWER):
            old.stop()
            wait_until(lambda: leads(cluster, "new"), "the newer version to lead")
            wait_until(lambda: takes_the_field(lab), "the newer policy to act")
            lab.submit("between", 4, cadence="brisk")
            lab.submit("waits", 8, cadence="brisk")
            lab.await_workers("between")
            assert understood(lab, "between") == "True"
            ran |= {name: uid for name, uid in uids(lab).items() if name.startswith("between")}
            assert uids(lab) == ran

        take_back(cluster)
        with OperatorProcess(kubeconfig, tmp_path, name="again", options=GUARDED):
            wait_until(lambda: leads(cluster, "again"), "the older version to lead again")
            wait_until(lambda: understood(lab, "between") == "False", "it to say what it misses")
            lab.finish("gang", 1)
            lab.await_workers("waits")
            kept = {name: uid for name, uid in ran.items() if not name.startswith("gang")}
            assert kept.items() <= uids(lab).items()
            for name in ("before", "between", "waits"):
                lab.finish(name, 1)
            for name in ("before", "gang", "between", "waits"):
                assert lab.wait_for(name, "Succeeded", "Failed")["status"]["state"] == "Succeeded"
    finally:
        old.stop()
        restore(cluster, older)


def takes_the_field(lab: Lab) -> bool:
    path = "/apis/weft.dev/v1alpha1/namespaces/lab/trainingjobs?dryRun=All"
    body = {
        "apiVersion": "weft.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "probe"},
        "spec": {"run": "true", FIELD: "brisk"},
    }
    return lab.cluster.api.send("POST", path, body).status == 201


def test_no_field_is_added_with_a_default() -> None:
    """The API server writes a default into every job. An older admission policy does not know the
    field, so between the two steps of an upgrade, and after a rollback, nobody could submit."""
    with_default = {
        name
        for path in sorted((CHART / "crds").glob("*.yaml"))
        for version in yaml.safe_load(path.read_text())["spec"]["versions"]
        for name in defaults(version["schema"]["openAPIV3Schema"]["properties"].get("spec", {}), "")
    }
    assert with_default <= FIRST_DEFAULTS, "leave its default to the operator"


def defaults(schema: dict[str, object], path: str) -> Iterator[str]:
    if "default" in schema:
        yield path
    inside = schema.get("properties", {})
    assert isinstance(inside, dict)
    for name, inner in inside.items():
        yield from defaults(inner, f"{path}.{name}")


FIRST_DEFAULTS = frozenset(
    {
        "",
        ".borrowing",
        ".checkpoint.every",
        ".grace",
        ".preemptible",
        ".priority",
        ".queue",
        ".resources",
        ".resources.gpus",
        ".retry",
        ".retry.limit",
        ".weight",
    }
)
