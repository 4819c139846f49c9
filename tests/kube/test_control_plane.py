"""The test cluster keeps its promises, so that a test that fails on it tells of Weft."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import waiting
from tools.testcluster import ControlPlane
from tools.testcluster.binaries import MissingProgram, find, missing
from tools.testcluster.process import Process
from tools.testcluster.rest import MERGE_PATCH, Rest
from weft.model.errors import WorldError

PODS = "/api/v1/namespaces/default/pods"
RBAC = "rbac.authorization.k8s.io"
ROOT = Path(__file__).parents[2]


# ------------------------------------------------------------------ its life


def test_a_fresh_one_is_ready_and_leaves_nothing(cluster_programs: None) -> None:
    with ControlPlane(full=False) as fresh:
        assert fresh.api.send("GET", "/readyz").status == 200
        pids = fresh.pids().values()
        assert len(pids) == 2
    assert not any(_exists(pid) for pid in pids)
    assert not fresh.layout.folder.exists()


def test_a_program_dies_with_the_tests_that_started_it(cluster_programs: None) -> None:
    script = (
        "import os, signal\n"
        "from tools.testcluster import arguments\n"
        "from tools.testcluster.layout import Layout\n"
        "from tools.testcluster.process import Process\n"
        "layout = Layout.make()\n"
        "etcd = Process('etcd', arguments.etcd(layout), layout.folder)\n"
        "etcd.start()\n"
        "while not os.readlink(f'/proc/{etcd.pid}/exe').endswith('etcd'): pass\n"
        "print(etcd.pid, layout.folder, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid, folder = done.stdout.split()
    try:
        _until(lambda: not _exists(int(pid)))
    finally:
        subprocess.run(["rm", "-r", folder], check=True)


def test_a_program_that_died_is_reported_with_its_log(
    cluster_programs: None, tmp_path: Path
) -> None:
    process = Process("etcd", ["--no-such-flag"], tmp_path)
    process.start()
    _until(lambda: not process.alive)
    with pytest.raises(WorldError, match=r"(?s)etcd is not running \(exit 2\).*Usage") as caught:
        process.check()
    assert str(process.log) in caught.value.hint


@pytest.mark.slow
def test_a_restarted_server_is_the_same_one_with_a_short_memory(cluster: ControlPlane) -> None:
    cluster.add_nodes(1)
    _add_pod(cluster, "before")
    version = _version(cluster)
    url, certificate = cluster.url, cluster.ca.read_bytes()
    _add_pod(cluster, "between")

    cluster.compact()
    cluster.restart_apiserver()

    assert (cluster.url, cluster.ca.read_bytes()) == (url, certificate)
    answer = cluster.api.send("GET", f"{PODS}?watch=1&resourceVersion={version}&timeoutSeconds=1")
    assert answer.body.get("code", answer.body.get("object", {}).get("code")) == 410
    _add_pod(cluster, "after")
    _until(lambda: _phases(cluster) == dict.fromkeys(("before", "between", "after"), "Running"))


def test_a_frozen_program_goes_on_when_thawed(cluster: ControlPlane) -> None:
    cluster.add_nodes(1)
    cluster.freeze("kwok")
    try:
        _add_pod(cluster, "waits")
        _until(lambda: bool(_pod(cluster, "waits")["spec"].get("nodeName")))
        assert _phases(cluster) == {"waits": "Pending"}
    finally:
        cluster.thaw("kwok")
    _until(lambda: _phases(cluster) == {"waits": "Running"})


# ------------------------------------------------------------------ reset


def test_reset_brings_back_what_was_kept(cluster: ControlPlane) -> None:
    api, role = cluster.api, f"/apis/{RBAC}/v1/clusterroles/view"
    before = _everything(cluster)
    cluster.add_nodes(20)
    cluster.add_namespace("team")
    for index in range(40):
        _add_pod(cluster, f"worker-{index}")
    finalizer = {"metadata": {"name": "held", "finalizers": ["test/never"]}}
    api.must("POST", "/api/v1/namespaces/team/configmaps", finalizer)
    api.must("DELETE", "/api/v1/namespaces/team/configmaps/held")
    api.must(
        "PATCH", "/api/v1/namespaces/default", {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH
    )
    api.must("DELETE", role)
    _until(lambda: set(_phases(cluster).values()) == {"Running"})

    cluster.reset()

    assert _everything(cluster) == before
    assert "a" not in api.must("GET", "/api/v1/namespaces/default")["metadata"]["labels"]
    assert api.send("GET", role).status == 200


def test_after_reset_no_program_acts_on_what_is_gone(cluster: ControlPlane) -> None:
    """Same names, other objects: a pod due to end in the test before does not end in this one."""
    cluster.add_nodes(30, prefix="old")
    for index in range(10):
        _add_pod(cluster, f"pod-{index}", env={"KWOK_SECONDS": "2"})
    _until(lambda: "Pending" not in _phases(cluster).values())

    cluster.reset()
    cluster.add_nodes(1, prefix="new")
    for index in range(10):
        _add_pod(cluster, f"pod-{index}")
    _add_pod(cluster, "ends", env={"KWOK_SECONDS": "2"})
    _until(lambda: "Pending" not in _phases(cluster).values())

    assert {pod["spec"]["nodeName"] for pod in _pods(cluster)} == {"new-0"}
    _until(lambda: _phases(cluster)["ends"] == "Succeeded")
    others = {phase for name, phase in _phases(cluster).items() if name != "ends"}
    assert others == {"Running"}, "what was due before this pod ended has happened"


def test_whoever_watches_hears_of_every_removal(api_server: ControlPlane) -> None:
    """Each in a revision of its own: a watch that broke in between would miss the others."""
    for index in range(20):
        _add_pod(api_server, f"pod-{index}")
    version = _version(api_server)

    api_server.reset()

    events = _watch(api_server.api, PODS, version)
    gone = [event["object"]["metadata"] for event in events if event["type"] == "DELETED"]
    assert {each["name"] for each in gone} >= {f"pod-{index}" for index in range(20)}
    assert len({each["resourceVersion"] for each in gone}) == len(gone)


# ------------------------------------------------------------------ nodes and kubelets


def test_nodes_have_what_was_asked_for(cluster: ControlPlane) -> None:
    names = cluster.add_nodes(
        3, gpus=4, cpus=32, memory_gib=128, prefix="gpu", labels={"rack": "r1"}
    )
    cluster.add_nodes(1, gpus=0, prefix="cpu")

    nodes = {n["metadata"]["name"]: n for n in cluster.api.must("GET", "/api/v1/nodes")["items"]}
    assert set(nodes) == {*names, "cpu-0"} == {"gpu-0", "gpu-1", "gpu-2", "cpu-0"}
    held = nodes["gpu-1"]["status"]["allocatable"]
    assert (held["nvidia.com/gpu"], held["cpu"], held["memory"]) == ("4", "32", "128Gi")
    assert nodes["gpu-1"]["metadata"]["labels"]["rack"] == "r1"
    assert "nvidia.com/gpu" not in nodes["cpu-0"]["status"]["allocatable"]


def test_a_node_without_a_condition_becomes_ready(cluster: ControlPlane) -> None:
    cluster.api.must("POST", "/api/v1/nodes", {"metadata": {"name": "bare"}})
    _until(lambda: _ready(cluster, "bare") == "True")


def test_a_silent_node_is_tainted_until_it_reports_again(cluster: ControlPlane) -> None:
    def taints() -> set[str]:
        spec = cluster.api.must("GET", "/api/v1/nodes/node-0")["spec"]
        return {f"{taint['key']}:{taint['effect']}" for taint in spec.get("taints", ())}

    cluster.add_nodes(3)  # were none of them ready, the controllers would suspect themselves
    cluster.set_ready("node-0", False)
    _until(lambda: "node.kubernetes.io/unreachable:NoExecute" in taints())
    assert _ready(cluster, "node-0") == "Unknown"
    cluster.set_ready("node-0", True)
    _until(lambda: not taints())
    assert _ready(cluster, "node-0") == "True"


def test_a_pod_runs_until_it_is_deleted_and_fails_on_its_way_out(cluster: ControlPlane) -> None:
    cluster.add_nodes(1)
    version = _version(cluster)
    _add_pod(cluster, "worker")
    _until(lambda: _phases(cluster) == {"worker": "Running"})
    cluster.api.must("DELETE", f"{PODS}/worker")
    _until(lambda: not _phases(cluster))

    events = _watch(cluster.api, PODS, version)
    phases = [(event["type"], event["object"]["status"]["phase"]) for event in events]
    assert [phase for kind, phase in phases if kind == "MODIFIED"][-1] == "Failed"
    assert phases[-1][0] == "DELETED"


@pytest.mark.parametrize(("code", "phase"), [("0", "Succeeded"), ("137", "Failed")])
def test_a_pod_ends_after_its_time_with_its_code(
    cluster: ControlPlane, code: str, phase: str
) -> None:
    cluster.add_nodes(1)
    version = _version(cluster)
    _add_pod(cluster, "worker", env={"KWOK_SECONDS": "2", "KWOK_EXIT": code})
    _add_pod(cluster, "short", env={"KWOK_SECONDS": "0.3"})
    ended = {"worker": phase, "short": "Succeeded"}
    _until(lambda: _phases(cluster) == ended)
    events = [event["object"] for event in _watch(cluster.api, PODS, version)]
    order = [pod["metadata"]["name"] for pod in events if pod["status"]["phase"] in ended.values()]
    assert order.index("short") < order.index("worker")
    status = _pod(cluster, "worker")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert status["exitCode"] == int(code)


def test_a_pod_with_a_code_and_no_time_ends_at_once(cluster: ControlPlane) -> None:
    cluster.add_nodes(1)
    _add_pod(cluster, "worker", env={"KWOK_EXIT": "1"})
    _until(lambda: _phases(cluster) == {"worker": "Failed"})


@pytest.mark.parametrize(("asked", "allowed"), [("2", 600), ("600", 2)], ids=["asked", "killed"])
def test_a_pod_takes_its_grace_to_end(cluster: ControlPlane, asked: str, allowed: int) -> None:
    """The shorter of what it needs and what it is allowed; a pod that needs none goes first."""
    cluster.add_nodes(1)
    _add_pod(cluster, "slow", env={"KWOK_GRACE_SECONDS": asked}, grace_seconds=allowed)
    _add_pod(cluster, "quick")
    _until(lambda: set(_phases(cluster).values()) == {"Running"})
    version = _version(cluster)
    for name in ("slow", "quick"):
        leaving = cluster.api.must("DELETE", f"{PODS}/{name}")
        assert "deletionTimestamp" in leaving["metadata"]
    _until(lambda: not _phases(cluster))
    events = _watch(cluster.api, PODS, version)
    gone = [event["object"]["metadata"]["name"] for event in events if event["type"] == "DELETED"]
    assert gone == ["quick", "slow"]


def test_what_a_worker_printed_comes_through_the_api_server(cluster: ControlPlane) -> None:
    cluster.add_nodes(1)
    _add_pod(cluster, "worker")
    _until(lambda: _phases(cluster) == {"worker": "Running"})
    assert cluster.api.raw("GET", f"{PODS}/worker/log") == (200, b"hello from a worker\n")
    assert cluster.kubectl("logs", "worker") == "hello from a worker\n"


# ------------------------------------------------------------------ users


def test_users_may_do_what_they_were_granted(api_server: ControlPlane) -> None:
    role = {
        "metadata": {"name": "looks"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
    }
    binding = {
        "metadata": {"name": "alice-looks"},
        "roleRef": {"kind": "ClusterRole", "name": "looks", "apiGroup": RBAC},
        "subjects": [{"kind": "User", "name": "alice", "apiGroup": RBAC}],
    }
    with api_server.connect("alice") as alice:
        assert alice.send("GET", PODS).status == 403
        api_server.api.must("POST", f"/apis/{RBAC}/v1/clusterroles", role)
        api_server.api.must("POST", f"/apis/{RBAC}/v1/clusterrolebindings", binding)
        _until(lambda: alice.send("GET", PODS).status == 200)
        assert alice.send("DELETE", PODS).status == 403


def test_a_kubeconfig_for_a_service_account(cluster: ControlPlane) -> None:
    cluster.add_namespace("team")
    path = cluster.service_account_kubeconfig("team", "default")
    config = json.loads(path.read_text())
    assert config["contexts"][0]["context"]["namespace"] == "team"
    token = config["users"][0]["user"]["token"]
    with Rest(cluster.layout.api_port, cluster.ca, token) as account:
        review = account.must("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert review["status"]["userInfo"]["username"] == "system:serviceaccount:team:default"


def test_nobody_comes_in_without_a_token(api_server: ControlPlane) -> None:
    with Rest(api_server.layout.api_port, api_server.ca, "guessed") as stranger:
        assert stranger.send("GET", PODS).status == 401


# ------------------------------------------------------------------ programs


def test_envtest_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed = find("openssl")
    program = tmp_path / "openssl"
    program.write_text("#!/bin/sh\n")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert find("openssl") == installed, "what cannot be executed is no program"
    program.chmod(0o755)
    assert find("openssl") == program


def test_a_missing_program_says_how_to_get_it() -> None:
    assert missing(["kube-nothing"]) == ["kube-nothing"]
    with pytest.raises(MissingProgram, match="kube-nothing was not found") as caught:
        find("kube-nothing")
    assert "tools/testcluster/build kube-nothing" in caught.value.hint


# ------------------------------------------------------------------ words of these tests


def _add_pod(
    cluster: ControlPlane,
    name: str,
    *,
    env: Mapping[str, str] | None = None,
    grace_seconds: int = 30,
) -> None:
    container = {
        "name": "worker",
        "image": "none",
        "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
    }
    spec = {
        "containers": [container],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace_seconds,
    }
    cluster.api.must("POST", PODS, {"metadata": {"name": name}, "spec": spec})


def _pod(cluster: ControlPlane, name: str) -> dict[str, Any]:
    return cluster.api.must("GET", f"{PODS}/{name}")


def _pods(cluster: ControlPlane) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = cluster.api.must("GET", PODS)["items"]
    return items


def _phases(cluster: ControlPlane) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in _pods(cluster)}


def _ready(cluster: ControlPlane, name: str) -> str | None:
    status = cluster.api.must("GET", f"/api/v1/nodes/{name}")["status"]
    ready = (c["status"] for c in status.get("conditions", ()) if c["type"] == "Ready")
    return next(ready, None)


def _version(cluster: ControlPlane) -> str:
    return str(cluster.api.must("GET", PODS)["metadata"]["resourceVersion"])


def _watch(api: Rest, path: str, version: str) -> list[dict[str, Any]]:
    """What has happened since that version, as far as the server knows it within a second."""
    _, raw = api.raw("GET", f"{path}?watch=1&resourceVersion={version}&timeoutSeconds=1")
    return [json.loads(line) for line in raw.splitlines()]


def _everything(cluster: ControlPlane) -> dict[str, set[str]]:
    """Names by kind, once as etcd has them and once as the server's caches do."""
    kinds = ("namespaces", "nodes", "pods", "configmaps", "serviceaccounts")
    found: dict[str, set[str]] = {}
    for kind in kinds:
        for served in ("", "?resourceVersion=0"):
            items = cluster.api.must("GET", f"/api/v1/{kind}{served}")["items"]
            found[kind + served] = {
                f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
                for item in items
            }
    return found


def _exists(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def _until(done: Callable[[], bool]) -> None:
    waiting.until(done, "a change of the cluster")
