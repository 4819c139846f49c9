"""The command line against a real API server, as people with few rights and no operator.

What an operator would write into a status, the tests write themselves.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import weft as package
from tests import waiting
from tests.cli.called import Weft, call
from tests.cli.objects import BUSY, a_failed_job, a_running_job, a_waiting_job
from tests.waiting import HANG_SECONDS
from tools.testcluster import ControlPlane
from tools.testcluster.rest import MERGE_PATCH
from weft.kube.names import LEASE, jobs_path, pods_path, queues_path

RESEARCH = "research"
GONE = "https://127.0.0.1:9"
JOB_FILE = "run: torchrun train.py\nimage: example/train:1\nresources: {gpus: 4..16}\n"
EVERYTHING = ["get", "list", "watch", "create", "patch", "delete"]
RULES = [
    {"apiGroups": ["weft.dev"], "resources": ["trainingjobs"], "verbs": EVERYTHING},
    {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
]
CLUSTER_RULES = [
    {"apiGroups": ["weft.dev"], "resources": ["queues"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
]


@pytest.fixture
def server(api_server: ControlPlane) -> ControlPlane:
    """A namespace in which alice may work, who may also see queues and nodes; bob may nothing."""
    api_server.add_namespace(RESEARCH)
    rbac, alice = "/apis/rbac.authorization.k8s.io/v1", [{"kind": "User", "name": "alice"}]
    for scope, kind, rules in (
        (f"/namespaces/{RESEARCH}", "Role", RULES),
        ("", "ClusterRole", CLUSTER_RULES),
    ):
        path = f"{rbac}{scope}/{kind.lower()}"
        api_server.api.must("POST", f"{path}s", {"metadata": {"name": "team"}, "rules": rules})
        bound = {"roleRef": {"kind": kind, "name": "team"}, "subjects": alice}
        api_server.api.must("POST", f"{path}bindings", {"metadata": {"name": "team"}, **bound})
    _settled(api_server)
    return api_server


@pytest.fixture
def weft(
    server: ControlPlane, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Weft:
    """The command line, as alice."""
    path = server.kubeconfig("alice", namespace=RESEARCH)
    monkeypatch.setenv("KUBECONFIG", str(path))
    return partial(call, capsys)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "llama.yaml"
    path.write_text(JOB_FILE)
    return path


def test_a_life_on_the_command_line(weft: Weft, server: ControlPlane, file: Path) -> None:
    assert weft("submit", file).out == "research/llama\n"
    stored = server.api.must("GET", jobs_path(RESEARCH, "llama"))
    assert stored["metadata"]["finalizers"] == ["weft.dev/workers"]
    assert stored["spec"]["resources"]["gpus"] == "4..16"
    until(lambda: "New" in weft("ls").out)
    assert "No operator has looked at it yet." in weft("why", "llama").out

    stand(server, "llama", {"state": "Queued", "reason": BUSY["code"], "reasons": [BUSY]})
    why = weft("why", "llama")
    assert BUSY["text"] in why.out
    assert f"remedy: {BUSY['remedy']}" in why.out
    until(lambda: BUSY["code"] in weft("ls", "--state", "waiting").out)

    assert weft("cancel", "llama").out == "research/llama\n"
    stored = server.api.must("GET", jobs_path(RESEARCH, "llama"))
    assert stored["metadata"]["annotations"] == {"weft.dev/cancel": "true"}
    stand(server, "llama", {"state": "Cancelled"})
    assert weft("wait", "llama").status == 3
    until(lambda: weft("ls", "--state", "active").out == "")


def test_submitting_twice_and_trying_first(weft: Weft, server: ControlPlane, file: Path) -> None:
    assert "would take this job" in weft("submit", file, "--dry-run").err
    assert server.api.must("GET", jobs_path(RESEARCH))["items"] == []
    assert weft("submit", file).status == 0
    again = weft("submit", file)
    assert again.status == 5
    assert "already exists" in again.err
    assert "hint: Choose another name" in again.err


def test_a_cancel_can_be_tried(weft: Weft, server: ControlPlane, file: Path) -> None:
    weft("submit", file)
    assert "nothing was changed" in weft("cancel", "llama", "--dry-run").err
    assert "annotations" not in server.api.must("GET", jobs_path(RESEARCH, "llama"))["metadata"]


def test_lists_are_selected_by_the_server(weft: Weft, server: ControlPlane) -> None:
    for job in (a_running_job(), a_waiting_job(), a_failed_job()):
        put(server, job)
    until(lambda: len(weft("ls", "-o", "json").json["jobs"]) == 3)
    until(lambda: "Failed" in weft("ls").out)
    for words, names in (
        (("--state", "running"), ["llama-sft"]),
        (("--state", "waiting", "--state", "failed"), ["bert-ft", "vit-l"]),
        (("--state", "active", "--queue", "research"), ["llama-sft", "bert-ft"]),
        (("--queue", "default"), ["vit-l"]),
    ):
        jobs = weft("ls", *words, "-o", "json").json["jobs"]
        assert sorted(job["name"] for job in jobs) == sorted(names), words
    assert "2 preemptions, 1 failure" in weft("show", "llama-sft").out
    assert "jobs   1 running, 1 waiting" in weft("top").out


def test_long_lists_come_in_pages(weft: Weft, server: ControlPlane) -> None:
    for number in range(12):
        put(server, a_waiting_job(f"job-{number}"))
    some = weft("ls", "--limit", "5")
    assert some.out.count("job-") == 5
    assert "about 7 more jobs" in some.err


def test_queues_and_nodes(weft: Weft, server: ControlPlane) -> None:
    for name, spec in (("root", {}), ("leaf", {"parent": "root", "limit": 8})):
        body = {"apiVersion": "weft.dev/v1alpha1", "kind": "Queue"}
        server.api.must("POST", queues_path(), {**body, "metadata": {"name": name}, "spec": spec})
    tree = [("root", 0), ("leaf", 1)]
    until(lambda: [(q["name"], q["depth"]) for q in listed(weft, "queues")] == tree)
    server.add_nodes(2, labels={"nvidia.com/gpu.product": "H100"})
    put(server, a_running_job(), nodes=("node-0", "node-1"))
    full = [("H100", 8, 8)] * 2
    until(
        lambda: [(n["gpu_type"], n["gpus"], n["used_gpus"]) for n in listed(weft, "nodes")] == full
    )
    assert "foreign use is not counted" in weft("nodes").err
    assert "16 of 16 used" in weft("top").out


def test_foreign_pods_are_counted_for_those_who_may_see_them(
    weft: Weft, server: ControlPlane
) -> None:
    server.add_nodes(1)
    asked = {"limits": {"nvidia.com/gpu": "3"}}
    container = {"name": "x", "image": "x", "resources": asked}
    pod = {"metadata": {"name": "notebook"}, "spec": {"nodeName": "node-0"}}
    pod["spec"]["containers"] = [container]  # type: ignore[assignment]
    server.api.must("POST", pods_path(RESEARCH), pod)
    admin = ("--kubeconfig", server.kubeconfig())
    until(lambda: [node["foreign_gpus"] for node in listed(weft, "nodes", *admin)] == [3])


def test_whoever_may_nothing_is_told(weft: Weft, server: ControlPlane, file: Path) -> None:
    bob = ("--kubeconfig", server.kubeconfig("bob", namespace=RESEARCH))
    for words in (("ls",), ("queues",), ("nodes",), ("why", "x"), ("submit", file)):
        called = weft(*words, *bob)
        assert called.status == 5, words
        assert "forbidden" in called.err
        assert "weft doctor" in called.err


def test_a_missing_job(weft: Weft, server: ControlPlane) -> None:
    put(server, a_waiting_job())
    for command in ("show", "why", "wait", "logs", "cancel"):
        called = weft(command, "bert-fd")
        assert called.status == 2
        assert "did you mean bert-ft?" in called.err


def test_a_server_that_is_not_there(weft: Weft, server: ControlPlane, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(Path(os.environ["KUBECONFIG"]).read_text().replace(server.url, GONE))
    called = weft("ls", "--kubeconfig", path)
    assert called.status == 5
    assert "hint: " in called.err
    assert weft("ls", "--kubeconfig", "/nowhere").status == 5


def test_doctor_finds_a_sound_cluster_sound(weft: Weft, server: ControlPlane) -> None:
    server.add_nodes(1)
    queue = {"apiVersion": "weft.dev/v1alpha1", "kind": "Queue", "metadata": {"name": "default"}}
    server.api.must("POST", queues_path(), {**queue, "spec": {}})
    condition = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}
    condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    server.api.must(
        "PATCH",
        f"{queues_path('default')}/status",
        {"status": {"conditions": [condition]}},
        MERGE_PATCH,
    )
    lead(server, ago_seconds=-600.0)
    until(lambda: weft("doctor", "--kubeconfig", server.kubeconfig()).status == 0)
    called = weft("doctor", "-o", "json", "--kubeconfig", server.kubeconfig())
    verdicts = {(line["check"], line["verdict"]) for line in called.json["findings"]}
    checks = ("clock", "server", "crds", "rights", "gpus", "operator", "queues")
    assert verdicts == {(check, "ok") for check in checks}
    assert (called.status, called.json["ok"]) == (0, True)


def test_doctor_names_what_is_missing(weft: Weft, server: ControlPlane) -> None:
    lead(server, ago_seconds=3600.0)
    mine = weft("doctor")
    assert mine.status == 0, "what alice may not see is no failure"
    assert "you may not list leases" in mine.out
    until(lambda: "led until 3,6" in weft("doctor", "--kubeconfig", server.kubeconfig()).out)
    admin = weft("doctor", "--kubeconfig", server.kubeconfig())
    assert admin.status == 1
    assert "there is no queue" in admin.out
    bob = weft("doctor", "-o", "json", "--kubeconfig", server.kubeconfig("bob"))
    assert bob.status == 1
    failed = [line["text"] for line in bob.json["findings"] if line["verdict"] == "fail"]
    assert any("may not create trainingjobs" in text for text in failed)


def test_wait_hears_of_the_end(weft: Weft, server: ControlPlane) -> None:
    put(server, a_waiting_job())
    with started("wait", "bert-ft") as process:
        assert "29 of 64" in heard(process)
        stand(server, "bert-ft", {"state": "Running", "reason": None, "message": None})
        assert heard(process) == "Running\n"
        stand(server, "bert-ft", {"state": "Failed"})
        assert process.wait(timeout=HANG_SECONDS) == 1


def test_wait_survives_a_server_that_comes_back(weft: Weft, server: ControlPlane) -> None:
    put(server, a_waiting_job())
    with started("wait", "bert-ft") as process:
        assert "29 of 64" in heard(process)
        server.restart_apiserver()
        stand(server, "bert-ft", {"state": "Succeeded"})
        assert process.wait(timeout=HANG_SECONDS) == 0


def test_wait_hears_of_a_deletion_and_can_be_left(weft: Weft, server: ControlPlane) -> None:
    put(server, a_waiting_job())
    with started("wait", "bert-ft") as left, started("wait", "bert-ft") as process:
        assert heard(left) == heard(process)
        left.send_signal(signal.SIGINT)
        assert left.wait(timeout=HANG_SECONDS) == 130
        assert "detached: the job goes on" in rest(left)
        server.api.must("DELETE", jobs_path(RESEARCH, "bert-ft"))
        assert process.wait(timeout=HANG_SECONDS) == 3


def test_ls_follows_changes(weft: Weft, server: ControlPlane) -> None:
    put(server, a_waiting_job())
    with started("ls", "--watch", "-o", "json") as process:
        assert process.stdout is not None
        assert '"state":"Queued"' in process.stdout.readline()
        stand(server, "bert-ft", {"state": "Running"})
        assert '"state":"Running"' in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=HANG_SECONDS) == 130


def test_logs_of_a_pod(weft: Weft, server: ControlPlane, cluster: ControlPlane) -> None:
    server.add_nodes(1)
    put(server, a_running_job("chatty"), nodes=("node-0",))
    worker = {"name": "worker", "image": "x"}
    labels = {"weft.dev/job": "chatty", "weft.dev/epoch": "3", "weft.dev/rank": "0"}
    pod = {
        "metadata": {"name": "chatty-3-0", "labels": labels},
        "spec": {"nodeName": "node-0", "containers": [worker]},
    }
    server.api.must("POST", pods_path(RESEARCH), pod)
    with started("logs", "-f", "chatty", "--all") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "[0] hello from a worker\n"
        assert weft("logs", "chatty").out == "hello from a worker\n"
        stand(server, "chatty", {"state": "Succeeded"})
        server.api.must("DELETE", pods_path(RESEARCH, "chatty-3-0?gracePeriodSeconds=0"))
        assert process.wait(timeout=HANG_SECONDS) == 0


def listed(weft: Weft, command: str, *words: object) -> list[dict[str, Any]]:
    """The lines of a list."""
    found: list[dict[str, Any]] = weft(command, *words, "-o", "json").json[command]
    return found


def until(look: Callable[[], bool]) -> None:
    """A list is what the server remembers, which may be a moment behind."""
    waiting.until(look, "the list to be current")


def put(server: ControlPlane, job: Mapping[str, Any], nodes: tuple[str, ...] = ()) -> None:
    """The job as its owner and an operator would have left it."""
    name, status = job["metadata"]["name"], dict(job["status"])
    if nodes:
        seats = [{"node": node, "gpus": 8} for node in nodes]
        status["decision"] = {"epoch": 3, "width": 8 * len(nodes), "seats": seats}
    about = {"name": name, "namespace": RESEARCH}
    kind = {"apiVersion": job["apiVersion"], "kind": job["kind"]}
    server.api.must("POST", jobs_path(RESEARCH), {**kind, "metadata": about, "spec": job["spec"]})
    stand(server, name, status)


def stand(server: ControlPlane, name: str, status: Mapping[str, Any]) -> None:
    path = f"{jobs_path(RESEARCH, name)}/status"
    server.api.must("PATCH", path, {"status": status}, MERGE_PATCH)


def lead(server: ControlPlane, *, ago_seconds: float) -> None:
    """An operator's lease, renewed so long ago."""
    renewed = datetime.now(UTC) - timedelta(seconds=ago_seconds)
    spec = {
        "holderIdentity": "replica-1",
        "leaseDurationSeconds": 15,
        "renewTime": renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    server.api.must("POST", path, {"metadata": {"name": LEASE}, "spec": spec})


@contextmanager
def started(*words: str) -> "Iterator[subprocess.Popen[str]]":
    """A command in a process of its own, ended at the latest with the block."""
    source = str(Path(package.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "weft.cli.main", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": source, "WEFT_VERBOSE": ""},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def heard(process: "subprocess.Popen[str]") -> str:
    """The next line that it says."""
    assert process.stderr is not None
    return process.stderr.readline()


def rest(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    return process.stderr.read()


def _settled(server: ControlPlane) -> None:
    """Rights hold a moment after they were given."""
    with server.connect("alice") as alice:
        while alice.send("GET", jobs_path(RESEARCH)).status != 200:
            pass
        while alice.send("GET", queues_path()).status != 200:
            pass
