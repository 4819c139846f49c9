"""What the commands show of a cluster: tables as they are, JSON by its shape."""

import pytest

from tests.cli.called import Weft, expect_json_shape, expect_snapshot, trimmed
from tests.cli.fake_cluster import JOBS, NODES, PODS, QUEUES, WAITS, FakeApi
from tests.cli.objects import Thing, a_job, a_queue, a_running_job, a_waiting_job
from weft.kube.client.errors import Forbidden

SCREENS = {
    "ls": ("ls",),
    "ls-wide": ("ls", "-A", "-o", "wide"),
    "show": ("show", "llama-sft"),
    "show-waiting": ("show", "bert-ft"),
    "show-failed": ("show", "vit-l"),
    "why": ("why", "bert-ft"),
    "queues": ("queues",),
    "queues-wide": ("queues", "-o", "wide"),
    "nodes": ("nodes",),
    "nodes-wide": ("nodes", "--all", "-o", "wide"),
    "top": ("top",),
}
TWINS = {
    "ls": ("weft-jobs/1", ("ls",)),
    "show": ("weft-job/1", ("show", "llama-sft")),
    "why": ("weft-waiting/1", ("why", "bert-ft")),
    "queues": ("weft-queues/1", ("queues",)),
    "nodes": ("weft-nodes/1", ("nodes",)),
    "top": ("weft-top/1", ("top",)),
}


@pytest.mark.parametrize("name", SCREENS)
def test_a_table(weft: Weft, cluster: FakeApi, name: str) -> None:
    called = weft(*SCREENS[name])
    assert called.status == 0
    expect_snapshot(f"cluster-{name}.txt", trimmed(called.out))
    assert cluster.closed


@pytest.mark.parametrize("name", TWINS)
def test_its_json_twin(weft: Weft, cluster: FakeApi, name: str) -> None:
    schema, words = TWINS[name]
    called = weft(*words, "-o", "json")
    assert called.status == 0
    assert called.json["schema"] == schema
    expect_json_shape(f"cluster-{name}.json", called.json)


def test_ls_selects_on_the_server(weft: Weft, cluster: FakeApi) -> None:
    listed = weft("ls", "--state", "running", "--state", "Failed", "-o", "json").json
    assert [job["name"] for job in listed["jobs"]] == ["llama-sft", "vit-l"]
    assert "status.state!=Queued" in cluster.asked[-1][1]["fieldSelector"]
    listed = weft("ls", "-A", "--state", "waiting", "--queue", "research", "-o", "json").json
    assert [job["name"] for job in listed["jobs"]] == ["eval", "bert-ft"]
    assert "spec.queue=research" in cluster.asked[-1][1]["fieldSelector"]


def test_ls_shows_a_job_that_no_operator_has_seen(weft: Weft, cluster: FakeApi) -> None:
    cluster.things[JOBS] = [a_job("fresh"), a_running_job(annotations={"weft.dev/cancel": "true"})]
    out = weft("ls").out
    assert "New" in out
    assert "Running (ending)" in out
    assert [job["name"] for job in weft("ls", "--state", "active", "-o", "json").json["jobs"]]


def test_ls_of_nothing_says_so(weft: Weft, cluster: FakeApi) -> None:
    called = weft("ls", "-n", "empty")
    assert (called.out, called.err) == ("", "no jobs in namespace 'empty'\n")
    assert weft("ls", "-A", "--queue", "none").err == "no such jobs in any namespace\n"


def test_lists_come_in_pages(weft: Weft, cluster: FakeApi) -> None:
    cluster.things[JOBS] = [a_job(f"job-{number}") for number in range(1200)]
    assert len(weft("ls", "-o", "json").json["jobs"]) == 1200
    jobs = [asked for path, asked in cluster.asked if path.endswith("trainingjobs")]
    asked = [(asked["limit"], asked["resourceVersion"]) for asked in jobs]
    assert asked == [("500", "0")] * 3
    some = weft("ls", "--limit", "700")
    assert "about 500 more jobs were not read" in some.err
    assert some.out.count("job-") == 700


def test_why_tells_of_jobs_that_do_not_wait(weft: Weft, cluster: FakeApi) -> None:
    assert "It does not wait." in weft("why", "llama-sft").out
    assert "no try is left" in weft("why", "vit-l").out
    cluster.things[JOBS] = [a_job("fresh"), a_job("quiet", status={"state": "Queued"})]
    fresh = weft("why", "fresh")
    assert "No operator has looked at it yet." in fresh.out
    assert "weft doctor" in fresh.err
    assert "No reason is written down yet." in weft("why", "quiet").out


def test_reasons_are_read_from_the_report_and_told_with_their_age(
    weft: Weft, cluster: FakeApi
) -> None:
    cluster.things[JOBS] = [a_job("fresh"), a_waiting_job()]
    cluster.things[WAITS] = [a_report("2026-01-01T11:59:57Z", {"fresh": [0], "bert-ft": [1, 0]})]
    why = weft("why", "fresh")
    assert "fresh: Queued" in why.out
    assert "1 The moon wanes.  [Moon.Phase]" in why.out
    assert why.err == "as of 3s ago\n"
    assert "Why it waits (as of 3s ago)" in weft("show", "bert-ft").out
    told = weft("why", "bert-ft", "-o", "json").json
    assert [reason["code"] for reason in told["reasons"]] == ["Capacity.Busy", "Moon.Phase"]
    assert told["reasons"][0]["cause"] == "capacity"
    listed = weft("ls", "--state", "Queued")
    assert "Moon.Phase" in listed.out
    assert "note: reasons as of 3s ago" in listed.err
    assert "fresh" not in weft("ls", "--state", "Admitted").out


def test_an_old_report_says_whom_to_ask(weft: Weft, cluster: FakeApi) -> None:
    cluster.things[JOBS] = [a_job("fresh")]
    cluster.things[WAITS] = [a_report("2026-01-01T11:50:00Z", {"fresh": [0]})]
    assert weft("why", "fresh").err.startswith("as of 10m ago; weft doctor tells")
    cluster.things[WAITS] = [a_report("2026-01-01T07:59:00Z", {"fresh": [0]})]
    assert "No operator has looked at it yet." in weft("why", "fresh").out  # of an earlier fresh
    cluster.things[JOBS] = [a_waiting_job()]
    cluster.things[WAITS] = [a_report("2026-01-01T11:54:00Z", {"bert-ft": [0]})]
    assert "Moon.Phase" not in weft("why", "bert-ft").out  # its status is kept by somebody else
    cluster.things[JOBS] = [a_job("fresh")]
    cluster.forbidden = ("waitreports",)
    assert "No operator has looked at it yet." in weft("why", "fresh").out


def a_report(at: str, queued: dict[str, list[int]]) -> Thing:
    reasons = [
        {"code": "Moon.Phase", "text": "The moon wanes.", "remedy": "wait"},
        {"code": "Capacity.Busy", "text": "0 of 8 are free.", "remedy": "wait"},
    ]
    about = {"name": "waits-0", "namespace": "research", "resourceVersion": "1", "uid": "r"}
    status = {"at": at, "part": 0, "parts": 1, "reasons": reasons, "queued": queued}
    return {"metadata": about, "status": status}


def test_a_job_is_named_with_its_namespace_too(weft: Weft, cluster: FakeApi) -> None:
    assert weft("why", "prod/eval").out == weft("why", "eval", "-n", "prod").out
    assert "prod/eval: Queued" in weft("why", "prod/eval").out


def test_a_job_that_was_stopped_waits_since_then(weft: Weft, cluster: FakeApi) -> None:
    stopped = a_waiting_job()
    stopped["status"] |= {
        "startedAt": "2026-01-01T11:50:00Z",
        "conditions": [
            {"type": "Running", "status": "False", "lastTransitionTime": "2026-01-01T11:59:00Z"}
        ],
    }
    cluster.things[JOBS] = [stopped]
    assert weft("why", "bert-ft", "-o", "json").json["waited_seconds"] == 60.0


def test_whoever_may_see_little_sees_that(weft: Weft, cluster: FakeApi) -> None:
    cluster.forbidden = ("queues", "pods", "events")
    assert "Workers" not in weft("show", "llama-sft").out
    assert weft("why", "bert-ft").status == 0
    called = weft("nodes")
    assert called.status == 0
    assert "foreign use is not counted" in called.err
    cluster.forbidden = ("nodes",)
    top = weft("top")
    assert "GPUs   16 used" in top.out
    assert "you may not list nodes" in top.err
    assert weft("nodes").status == 5


def test_jobs_of_others_are_left_out_where_they_may_not_be_seen(
    weft: Weft, cluster: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = cluster._read

    def narrow(path: str, params: dict[str, str]) -> object:
        if path == JOBS:
            raise Forbidden("not all of them")
        return read(path, params)

    monkeypatch.setattr(cluster, "_read", narrow)
    assert "'research' only" in weft("top").err
    nodes = weft("nodes", "-o", "json")
    assert "used counts 'research' only" in nodes.json["notes"][0]
    assert [node["used_gpus"] for node in nodes.json["nodes"]][:2] == [8, 8]


DRIVER = "gpu.example.com"
DEVICES = "/apis/resource.k8s.io/v1"
BROKEN = {"key": "example.com/broken", "value": "fan", "effect": "NoSchedule"}


def publish(cluster: FakeApi, *taints: Thing, version: str = "v1beta2") -> None:
    """Two nodes whose driver publishes two GPUs each, and rules that taint some of them."""
    settings = "/api/v1/namespaces/weft-system/configmaps/weft-settings"
    cluster.answers[settings] = {"data": {"nodes.json": f'{{"gpuClass": "{DRIVER}"}}'}}
    about = {"driver": DRIVER, "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}
    cluster.things[f"{DEVICES}/resourceslices"] = [
        {
            "metadata": {"name": node, "uid": node, "resourceVersion": "1"},
            "spec": {**about, "nodeName": node, "pool": {"name": node}},
        }
        for node in ("node-1", "node-4")
    ]
    cluster.things[f"{DEVICES}/resourceclaims"] = []
    rules = [
        {"metadata": {"name": f"rule-{number}"}, "spec": {"deviceSelector": one, "taint": BROKEN}}
        for number, one in enumerate(taints)
    ]
    cluster.things[f"/apis/resource.k8s.io/{version}/devicetaintrules"] = rules


def test_gpus_that_a_rule_taints_are_not_free(weft: Weft, cluster: FakeApi) -> None:
    cluster.things[JOBS] = []
    publish(cluster, {"driver": DRIVER, "pool": "node-1", "device": "gpu-1"})
    nodes = {node["name"]: node for node in weft("nodes", "-o", "json").json["nodes"]}
    assert [nodes[name]["gpus"] for name in ("node-1", "node-4")] == [1, 2]
    assert nodes["node-1"]["tainted_gpus"] == 1 and not nodes["node-4"]["taints"]
    assert nodes["node-1"]["taints"] == ["gpu-1 has the taint example.com/broken=fan"]
    called = weft("nodes")
    (line,) = [line for line in called.out.splitlines() if line.startswith("node-1")]
    assert "1 tainted" in line
    assert "note: node-1: gpu-1 has the taint example.com/broken=fan" in called.err


def test_a_node_all_of_whose_gpus_are_tainted_is_still_shown(weft: Weft, cluster: FakeApi) -> None:
    cluster.things[JOBS] = []
    publish(cluster, {"pool": "node-1"})
    nodes = {node["name"]: node for node in weft("nodes", "-o", "json").json["nodes"]}
    assert (nodes["node-1"]["gpus"], nodes["node-1"]["tainted_gpus"]) == (0, 2)


def test_what_a_job_holds_counts_for_as_long_as_it_does(weft: Weft, cluster: FakeApi) -> None:
    """As the operator counts: a taint sends nobody away who is there."""
    job = a_running_job()
    job["status"]["decision"]["seats"] = [{"node": "node-1", "gpus": 2}]
    cluster.things[JOBS] = [job]
    publish(cluster, {"pool": "node-1"})
    nodes = {node["name"]: node for node in weft("nodes", "-o", "json").json["nodes"]}
    assert [nodes["node-1"][name] for name in ("gpus", "used_gpus")] == [2, 2]


def test_who_may_not_see_rules_is_told(weft: Weft, cluster: FakeApi) -> None:
    publish(cluster, {"pool": "node-1"})
    cluster.forbidden = ("devicetaintrules",)
    called = weft("nodes", "-o", "json")
    assert any("may not list devicetaintrules" in note for note in called.json["notes"])
    assert {node["tainted_gpus"] for node in called.json["nodes"]} == {0}


def test_where_no_rules_are_served_nothing_is_said_of_them(weft: Weft, cluster: FakeApi) -> None:
    publish(cluster, {"pool": "node-1"}, version="v9")
    called = weft("nodes", "-o", "json").json
    assert not any("taint" in note for note in called["notes"])
    assert {node["tainted_gpus"] for node in called["nodes"]} == {0}


def test_an_empty_cluster(weft: Weft, cluster: FakeApi) -> None:
    cluster.things = {path: [] for path in (JOBS, QUEUES, NODES, PODS)}
    assert weft("queues").err == "there are no queues\n"
    assert weft("nodes").err == "there are no nodes\n"
    assert "0 running, 0 waiting" in weft("top").out


@pytest.mark.parametrize("command", ["ls", "queues", "top"])
@pytest.mark.parametrize("output", ["table", "json"])
def test_watching_draws_again_until_it_is_left(
    weft: Weft, cluster: FakeApi, monkeypatch: pytest.MonkeyPatch, command: str, output: str
) -> None:
    monkeypatch.setattr("weft.cli.terminal.watching.LEAST_SECONDS", 0.0)
    cluster.watched = "queues" if command == "queues" else "trainingjobs"
    change = a_queue("new", version=101) if command == "queues" else a_waiting_job(version=101)
    cluster.changes = [("MODIFIED", change), ("INTERRUPT", {})]
    called = weft(command, "--watch", "-o", output)
    assert called.status == 130
    assert "detached: " in called.err
    if output == "json":
        assert called.out.splitlines()[0].startswith('{"schema"')


@pytest.mark.parametrize("command", ["ls", "top"])
def test_watching_on_a_terminal(
    weft: Weft, cluster: FakeApi, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr("weft.cli.terminal.watching.LEAST_SECONDS", 0.0)
    monkeypatch.setattr("weft.cli.terminal.watching.AGEING_SECONDS", 0.01)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    cluster.changes = [("MODIFIED", a_waiting_job(version=101)), ("INTERRUPT", {})]
    called = weft(command, "--watch")
    assert called.status == 130
    assert "llama-sft" in called.out


@pytest.mark.parametrize(("quiet", "painted"), [("", True), ("1", False)])
def test_colours_on_a_terminal(
    weft: Weft, cluster: FakeApi, monkeypatch: pytest.MonkeyPatch, quiet: str, painted: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", quiet)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert ("\x1b[32mRunning" in weft("ls").out) is painted


def test_text_from_a_cluster_cannot_steer_the_terminal(weft: Weft, cluster: FakeApi) -> None:
    bad = a_waiting_job()
    bad["status"] |= {"message": "\x1b]0;gotcha\x07\x1b[2Jfine [bold]really[/bold]", "reasons": []}
    cluster.things[JOBS] = [bad]
    for words in (("ls", "-o", "wide"), ("show", "bert-ft"), ("why", "bert-ft")):
        out = weft(*words).out
        assert "\x1b" not in out
        assert "fine [bold]really[/bold]" in out
