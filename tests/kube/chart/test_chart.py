"""The chart as helm renders it: what it gives, what it refuses, and that nothing slips in."""

import base64
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

import weft
from tests.kube.chart.values import EVERYTHING
from tests.kube.installed import CHART, NAMESPACE, OPERATOR, Manifest, helm, render
from weft.cli.operator.command import operator
from weft.kube.names import GROUP, JOB_LABEL, LEASE, SETTINGS, TOKEN_AUDIENCE
from weft.kube.operator.leader_endpoint import PORT_NAME
from weft.kube.operator.main import node_rules
from weft.kube.operator.observation.pod import PROBE_PORT
from weft.kube.operator.options import OperatorOptions
from weft.kube.reading.settings import rules_of
from weft.kube.reports.authority import certificates_in
from weft.model.errors import WorldError

INSTALL = Path(__file__).parents[3] / "docs" / "install.md"

pytestmark = pytest.mark.usefixtures("helm_is_there")


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_helm_finds_no_fault(values: Mapping[str, Any]) -> None:
    text = json.dumps(values)
    said = helm("lint", "--strict", str(CHART), "--values", "-", text=text)
    assert "1 chart(s) linted, 0 chart(s) failed" in said


def test_chart_and_program_have_one_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == chart["version"] == weft.__version__


def test_names_are_those_that_the_program_uses() -> None:
    account = one("ServiceAccount")["metadata"]
    assert (account["name"], account["namespace"]) == (OPERATOR, NAMESPACE)
    assert one("Role", OPERATOR)["rules"][1]["resourceNames"] == [LEASE]
    policies = json.dumps([m for m in render() if m["kind"] == "ValidatingAdmissionPolicy"])
    assert JOB_LABEL in policies
    assert f'== \\"{TOKEN_AUDIENCE}\\"' in policies
    assert f'startsWith(\\"{GROUP}/\\")' in policies


# ---------------------------------------------------------------------------------- values


def test_every_value_has_a_comment() -> None:
    text = (CHART / "values.yaml").read_text()
    lines = text.splitlines()
    root = yaml.compose(text)
    assert root is not None
    bare = [
        key.value
        for key in leaves(root)
        if not lines[key.start_mark.line - 1].lstrip().startswith("#")
    ]
    assert not bare


def test_schema_and_values_name_the_same_things() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert set(schema["properties"]) - set(values) == {"global"}
    assert set(places(values)) <= set(schema_places(schema, schema["definitions"]))


def test_every_object_of_the_schema_is_closed() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    schema["properties"].pop("global")
    open_ones = [part for part in objects(schema) if "additionalProperties" not in part]
    assert not open_ones


@pytest.mark.parametrize(
    "values",
    [
        {"replica": 2},
        {"replicas": 0},
        {"replicas": "2"},
        {"image": {"tag": "a b"}},
        {"image": {"digest": "sha256:1"}},
        {"image": {"pullPolicy": "Sometimes"}},
        {"recipe": ""},
        {"recipe": "mine.py:my_recipe"},
        {"recipe": "las(hold=600) --workers none"},
        {"workers": {"runAsUser": 0}},
        {"workers": {"privileged": True}},
        {"workers": {"priorityClasses": ["system-node-critical"]}},
        {"workers": {"tolerations": [{"key": "a"}]}},
        {"workers": {"jobTolerations": [""]}},
        {"nodes": {"selector": {"a": 1}}},
        {"nodes": {"selector": {"a": "b,c=d"}}},
        {"nodes": {"gpuResources": []}},
        {"nodes": {"gpuResources": ["gpu"]}},
        {"nodes": {"gpuClass": "nvidia.com/gpu"}},
        {"scaleUp": {"pods": -1}},
        {"metrics": {"alerts": {"enable": True}}},
        {"reports": {"port": 80}},
        {"reports": {"url": "ftp://x"}},
        {"reports": {"tls": {"key": "x"}}},
        {"reports": {"tls": {"caPath": "weft.pem"}}},
        {"fenceSeconds": -1},
        {"metrics": {"serviceMonitor": {"interval": "soon"}}},
        {"defaultQueue": {"spec": {"guarantee": 8}}},
        {"defaultQueue": {"spec": {"parent": "other"}}},
        {"access": {"clusterViewers": [""]}},
        {"networkPolicy": {"apiServerCidrs": ["10.0.0.1"]}},
        {"networkPolicy": {"apiServerPorts": []}},
        {"resources": {"limits": {"nvidia.com/gpu": "1"}}},
        {"tolerations": [{"operator": "Sometimes"}]},
        {"podAnnotations": {"a": 1}},
    ],
    ids=json.dumps,
)
def test_values_that_cannot_be_meant_are_refused(values: Mapping[str, Any]) -> None:
    with pytest.raises(WorldError, match="don't meet the specifications of the schema"):
        render(values)


@pytest.mark.parametrize("version", ["v1.33.9", "v1.20.0"])
def test_older_clusters_are_refused(version: str) -> None:
    with pytest.raises(WorldError, match="incompatible with Kubernetes"):
        helm("template", "weft", str(CHART), "--kube-version", version)


def test_the_install_page_names_every_value() -> None:
    page = INSTALL.read_text()
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert [place for place in places(values) if f"`{place}`" not in page] == []


# ---------------------------------------------------------------------------------- objects


def test_two_operators_of_which_one_always_stays() -> None:
    deployment = one("Deployment")["spec"]
    assert deployment["replicas"] == 2
    budget = one("PodDisruptionBudget")["spec"]
    assert budget["minAvailable"] == 1
    assert budget["selector"] == deployment["selector"]
    spread = deployment["template"]["spec"]["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in spread] == [
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    ]


def test_a_single_operator_does_not_hold_up_a_drain() -> None:
    assert not [m for m in render({"replicas": 1}) if m["kind"] == "PodDisruptionBudget"]


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_the_operator_runs_without_privileges(values: Mapping[str, Any]) -> None:
    pod = one("Deployment", values=values)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert pod["securityContext"]["runAsNonRoot"]
    assert "cpu" not in container["resources"]["limits"]
    assert {"configMap", "emptyDir", "secret"} >= {key for v in pod["volumes"] for key in v} - {
        "name"
    }


def test_arguments_by_default() -> None:
    assert arguments() == [
        "--namespace=$(POD_NAMESPACE)",
        "--identity=$(POD_NAME)",
        "--recipe=weave",
        "--log-level=INFO",
        "--fence-seconds=60",
        "--keep-days=30",
        "--scheduler-name=default-scheduler",
        "--run-as-user=1000",
        "--gpu-resource=nvidia.com/gpu",
        "--gpu-resource=amd.com/gpu",
        "--rack-label=topology.kubernetes.io/rack",
        "--lending",
        "--report-url=https://weft-operator.weft-system.svc:8080",
        "--reports-service=weft-operator",
        "--reports-port=8080",
        "--metrics-port=9090",
        "--tls-cert=/etc/weft/tls/tls.crt",
        "--tls-key=/etc/weft/tls/tls.key",
        "--tls-ca=/etc/weft/tls/ca.crt",
        "--isolated",
    ]


def test_arguments_with_everything() -> None:
    assert {
        "--recipe=tiresias(limits=(3250.0, 7200.0), promote=8)",
        "--default-image=registry.example.com/train:1",
        "--report-url=https://weft-operator.weft-system.svc:8080",
        "--tls-cert=/etc/weft/tls/tls.crt",
        "--report-ca=/etc/ssl/weft.pem",
        "--tls-key=/etc/weft/tls/tls.key",
        "--journal=/var/lib/weft/journal.jsonl",
        "--node-selector=weft.dev/trial=yes",
        "--node-selector=zone=a",
        "--gpu-resource=habana.ai/gaudi",
        "--rack-label=example.com/block",
        "--toleration=dedicated",
        "--job-toleration=example.com/spot",
        "--priority-class=training",
        "--scale-up-pods=4",
        "--trial-minutes=10",
        "--gang-probe-gpus=8",
    } <= {*arguments(EVERYTHING)}
    assert not [word for word in arguments(EVERYTHING) if word.startswith("--run-as-user")]


def test_who_lists_nodes_reads_what_the_operator_is_told() -> None:
    for values in ({}, EVERYTHING):
        said = json.loads(one("ConfigMap", SETTINGS, values)["data"]["nodes.json"])
        context = operator.make_context("operator", [*arguments(values)])
        told = {name: context.params[name] for name in OperatorOptions.__slots__ if name in TOLD}
        assert rules_of(said) == node_rules(OperatorOptions(namespace="a", identity="b", **told))


TOLD = ("node_selector", "gpu_resource", "gpu_class", "rack_label", "toleration", "job_toleration")


def test_without_the_policies_nothing_is_lent() -> None:
    assert "--lending" not in arguments({"admissionPolicy": {"enabled": False}})


def test_placeholders_are_below_every_worker_and_seen_by_autoscalers() -> None:
    name = one("PriorityClass", values=EVERYTHING)["metadata"]["name"]
    assert f"--scale-up-class={name}" in arguments(EVERYTHING)
    assert -10 <= one("PriorityClass", values=EVERYTHING)["value"] < 0
    assert not [m for m in render() if m["kind"] == "PriorityClass"]


def test_alerts_are_those_of_the_file() -> None:
    rule = one("PrometheusRule", values=EVERYTHING)
    assert rule["spec"] == yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
    assert labels_of(rule)["release"] == "prometheus"
    assert not [m for m in render() if m["kind"] == "PrometheusRule"]


def test_the_program_knows_every_argument() -> None:
    known = {name for option in operator.params for name in option.opts}
    assert {word.partition("=")[0] for word in arguments(EVERYTHING)} <= known
    assert one("Deployment")["spec"]["template"]["spec"]["containers"][0]["command"] == [
        "weft",
        "operator",
    ]


def test_reports_are_reached_at_the_address_that_workers_are_told() -> None:
    service = one("Service", OPERATOR)
    url = f"https://{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    (port,) = service["spec"]["ports"]
    assert f"--report-url={url}:{port['port']}" in arguments()


def test_reports_reach_whom_the_leader_writes_down_and_nobody_else() -> None:
    service = one("Service", OPERATOR)
    assert "selector" not in service["spec"]
    assert [port["name"] for port in service["spec"]["ports"]] == [PORT_NAME]
    assert f"--reports-service={service['metadata']['name']}" in arguments()
    assert variables()["POD_IP"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    (rule,) = [r for r in one("Role", OPERATOR)["rules"] if r["resources"] == ["endpointslices"]]
    assert rule["resourceNames"] == [service["metadata"]["name"]]


def test_metrics_are_read_from_every_replica_by_a_service_of_their_own() -> None:
    service = one("Service", f"{OPERATOR}-metrics")
    assert service["spec"]["selector"] == one("Deployment")["spec"]["selector"]["matchLabels"]
    monitor = one("ServiceMonitor", values=EVERYTHING)["spec"]
    (endpoint,) = monitor["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    wanted = monitor["selector"]["matchLabels"].items()
    chosen = [m for m in render() if m["kind"] == "Service" and wanted <= labels_of(m).items()]
    assert chosen == [service]


def test_the_network_lets_in_workers_and_those_who_measure() -> None:
    spec = one("NetworkPolicy")["spec"]
    workers, monitoring = spec["ingress"]
    assert workers["ports"] == [{"protocol": "TCP", "port": "reports"}]
    assert workers["from"] == [
        {
            "namespaceSelector": {},
            "podSelector": {"matchExpressions": [{"key": JOB_LABEL, "operator": "Exists"}]},
        }
    ]
    assert monitoring["ports"] == [{"protocol": "TCP", "port": "metrics"}]
    assert len(spec["egress"]) == 2


def test_probes_listen_where_the_operator_may_ask_and_to_nobody_else() -> None:
    values = {"probes": {"enabled": True, "port": 8099}}
    (container,) = one("DaemonSet", values=values)["spec"]["template"]["spec"]["containers"]
    assert "--listen=8099" in container["args"]
    assert container["ports"] == [{"name": PROBE_PORT, "containerPort": 8099}]
    asks = one("NetworkPolicy", "weft-operator", values)["spec"]["egress"][-1]
    assert asks["ports"] == [{"protocol": "TCP", "port": 8099}]
    (listens,) = one("NetworkPolicy", "weft-probes", values)["spec"]["ingress"]
    (who,) = listens["from"]
    assert who["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "operator"
    quiet = {"probes": {"enabled": True, "gangGpus": 0}}
    (container,) = one("DaemonSet", values=quiet)["spec"]["template"]["spec"]["containers"]
    assert "ports" not in container
    for off in (quiet, {"probes": {"enabled": False}}):
        assert not [word for word in arguments(off) if word.startswith("--gang-probe")]


@pytest.mark.parametrize("part", ["admissionPolicy", "networkPolicy", "flowControl"])
def test_each_guard_can_be_left_out(part: str) -> None:
    kinds = {
        "admissionPolicy": {
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
        },
        "networkPolicy": {"NetworkPolicy"},
        "flowControl": {"FlowSchema", "PriorityLevelConfiguration"},
    }[part]
    assert kinds <= {m["kind"] for m in render()}
    assert not kinds & {m["kind"] for m in render({part: {"enabled": False}})}


def test_guards_follow_the_namespace_of_the_release() -> None:
    words = ["--namespace", "elsewhere", "--kube-version", "v1.35.8"]
    text = helm("template", "weft", str(CHART), *words)
    assert "system:serviceaccount:elsewhere:weft-operator" in text
    assert NAMESPACE not in text


def test_the_dashboard_is_the_one_in_the_chart() -> None:
    boards = {file.name: file.read_text() for file in (CHART / "dashboards").glob("*.json")}
    assert boards
    assert one("ConfigMap", "weft-dashboard", EVERYTHING)["data"] == boards
    kinds = [m["kind"] for m in render()]
    assert (kinds.count("ConfigMap"), kinds.count("ServiceMonitor")) == (1, 0)


def test_the_default_queue_can_be_left_out_or_filled() -> None:
    assert one("Queue")["metadata"]["name"] == "default"
    assert one("Queue")["spec"] == {}
    filled = {"defaultQueue": {"spec": {"guaranteed": 8, "limit": 16}}}
    assert one("Queue", values=filled)["spec"] == {"guaranteed": 8, "limit": 16}
    assert not [m for m in render({"defaultQueue": {"create": False}}) if m["kind"] == "Queue"]


# ---------------------------------------------------------------------------------- helpers


def test_the_certificate_that_is_made_is_good_for_the_address_that_workers_use(
    tmp_path: Path,
) -> None:
    data = one("Secret", f"{OPERATOR}-reports")["data"]
    for name, text in data.items():
        (tmp_path / name).write_bytes(base64.b64decode(text))
    authority = certificates_in(str(tmp_path / "ca.crt"))
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    client = ssl.create_default_context(cadata=authority)
    host = f"{OPERATOR}.{NAMESPACE}.svc"
    shake_hands(client, server, host)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(client, server, "elsewhere.svc")


@pytest.mark.parametrize(
    ("tls", "scheme", "words"),
    [
        ({"generate": False}, "http", ()),
        ({"secretName": "own"}, "https", ("--tls-cert", "--tls-key")),
        ({"secretName": "own", "holdsCa": True}, "https", ("--tls-cert", "--tls-key", "--tls-ca")),
    ],
)
def test_ways_to_encrypt_reports(tls: dict[str, Any], scheme: str, words: tuple[str, ...]) -> None:
    values = {"reports": {"tls": tls}}
    given = arguments(values)
    assert tuple(word.partition("=")[0] for word in given if word.startswith("--tls")) == words
    assert f"--report-url={scheme}://{OPERATOR}.{NAMESPACE}.svc:8080" in given
    assert not [m for m in render(values) if m["kind"] == "Secret"]


def test_workers_are_reached_from_namespaces_that_are_named() -> None:
    values = {"workers": {"networkPolicy": {"from": {"team": "boards"}}}}
    assert "--reached-from=team=boards" in arguments(values)
    off = {"workers": {"networkPolicy": {"enabled": False}}}
    assert "--isolated" not in arguments(off)
    rules = one("ClusterRole", OPERATOR, off)["rules"]
    assert not [rule for rule in rules if "networkpolicies" in rule["resources"]]


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> None:
    """Without a socket: what one writes the other reads."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for side in (*sides, *sides):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()


def one(kind: str, name: str = "", values: Mapping[str, Any] | None = None) -> Manifest:
    found = [m for m in render(values) if m["kind"] == kind]
    (only,) = [m for m in found if not name or m["metadata"]["name"] == name]
    return only


def arguments(values: Mapping[str, Any] | None = None) -> list[str]:
    pod = one("Deployment", values=values)["spec"]["template"]["spec"]
    words: list[str] = pod["containers"][0]["args"]
    return words


def variables() -> dict[str, Any]:
    pod = one("Deployment")["spec"]["template"]["spec"]
    return {entry["name"]: entry["valueFrom"] for entry in pod["containers"][0]["env"]}


def labels_of(manifest: Manifest) -> dict[str, str]:
    labels: dict[str, str] = manifest["metadata"].get("labels", {})
    return labels


# Maps of the user's own: what is inside is for the user to name.
OWN = ("labels", "metricsFrom", "resources")


def places(values: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """`image.tag` and so on."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value and key not in OWN:
            yield from places(value, f"{above}{key}.")
        else:
            yield f"{above}{key}"


def leaves(node: yaml.Node) -> Iterator[yaml.Node]:
    """The keys of the same places, which know their lines."""
    for key, value in node.value:
        if isinstance(value, yaml.MappingNode) and value.value and key.value not in OWN:
            yield from leaves(value)
        else:
            yield key


def schema_places(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], above: str = ""
) -> Iterator[str]:
    for key, part in schema["properties"].items():
        resolved = definitions[part["$ref"].rsplit("/", 1)[1]] if "$ref" in part else part
        yield f"{above}{key}"
        if "properties" in resolved:
            yield from schema_places(resolved, definitions, f"{above}{key}.")


def objects(schema: Any) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401
    if isinstance(schema, Mapping):
        if schema.get("type") == "object":
            yield schema
        for part in schema.values():
            yield from objects(part)
