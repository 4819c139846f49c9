"""`weft doctor`: each finding with a verdict, and a remedy where it is not well."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from tests.cli.called import Weft, expect_json_shape, expect_snapshot, trimmed
from tests.cli.fake_cluster import LEASES, NODES, QUEUES, FakeApi
from tests.cli.objects import Thing, a_node, a_queue, ready
from weft.kube.reading.health import lease_finding, skew_finding
from weft.view.health import Verdict

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
KINDS = ("trainingjobs", "trainingjobs/status", "queues", "waitreports")
SERVED = {"resources": [{"name": n} for n in KINDS]}


def a_lease(*, holder: str = "replica-1", ago_seconds: float | None = 3.0) -> Thing:
    spec: Thing = {"holderIdentity": holder, "leaseDurationSeconds": 15}
    if ago_seconds is not None:
        spec["renewTime"] = (NOW - timedelta(seconds=ago_seconds)).isoformat()
    return {"metadata": {"name": "weft-operator", "namespace": "weft-system"}, "spec": spec}


@pytest.fixture
def patient(cluster: FakeApi, monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """A cluster that lacks nothing but an operator."""
    cluster.answers = {
        "/version": {"gitVersion": "v1.35.8", "minor": "35"},
        "/apis/weft.dev/v1alpha1": SERVED,
    }
    cluster.things[QUEUES] = [a_queue("default", status=ready())]
    monkeypatch.setattr("weft.kube.reading.clock.skew_seconds", in_step(0.1))
    return cluster


def in_step(seconds: float) -> Callable[..., Awaitable[float]]:
    async def skew(*_: object) -> float:
        return seconds

    return skew


def test_the_table(weft: Weft, patient: FakeApi) -> None:
    called = weft("doctor")
    assert called.status == 1
    expect_snapshot("cluster-doctor.txt", trimmed(called.out))
    expect_json_shape("cluster-doctor.json", weft("doctor", "-o", "json").json)


@pytest.mark.parametrize(
    ("leases", "verdict", "words"),
    [
        ((), Verdict.FAIL, "no operator ever led here"),
        ((a_lease(holder=""),), Verdict.FAIL, "nobody leads"),
        ((a_lease(ago_seconds=20),), Verdict.FAIL, "replica-1 in 'weft-system' led until 20 s ago"),
        ((a_lease(ago_seconds=None),), Verdict.FAIL, "never renewed"),
        ((a_lease(),), Verdict.OK, "replica-1 in 'weft-system' leads, renewed 3 s ago"),
    ],
)
def test_the_lease(leases: tuple[Thing, ...], verdict: Verdict, words: str) -> None:
    finding = lease_finding(leases, NOW)
    assert finding.verdict is verdict
    assert words in finding.text
    assert bool(finding.remedy) is (verdict is not Verdict.OK)


@pytest.mark.parametrize(
    ("skew", "verdict", "words"),
    [
        (0.4, Verdict.OK, "in step"),
        (-12.0, Verdict.WARN, "12 s behind"),
        (600.0, Verdict.FAIL, "600 s ahead of"),
    ],
)
def test_the_clock(skew: float, verdict: Verdict, words: str) -> None:
    finding = skew_finding(skew)
    assert finding.verdict is verdict
    assert words in finding.text


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"/apis/weft.dev/v1alpha1": {"resources": []}}, "lacks trainingjobs"),
        ({"/apis/weft.dev/v1alpha1": {"resources": SERVED["resources"][:3]}}, "lacks waitreports"),
        ({"/apis/weft.dev": {"versions": [{"version": "v2"}]}}, "is served as v2; this program"),
        ({}, "the server knows nothing of weft.dev"),
        ({"/version": {"gitVersion": "v1.29.0", "minor": "29+"}}, "Kubernetes v1.29.0"),
    ],
)
def test_what_the_server_serves(
    weft: Weft, patient: FakeApi, answers: dict[str, Thing], words: str
) -> None:
    patient.answers = {"/version": {"minor": "35"}, **answers}
    called = weft("doctor")
    assert called.status == 1
    assert words in called.out


def test_what_may_not_be_seen_is_a_warning(weft: Weft, patient: FakeApi) -> None:
    patient.forbidden = ("nodes", "leases", "queues", "pods")
    called = weft("doctor", "-o", "json")
    assert called.status == 0
    warned = [line for line in called.json["findings"] if line["verdict"] == "warn"]
    assert {line["check"] for line in warned} == {"rights", "gpus", "operator", "queues"}
    assert all(line["remedy"] for line in warned)


def test_a_right_that_every_command_needs(weft: Weft, patient: FakeApi) -> None:
    patient.forbidden = ("trainingjobs",)
    called = weft("doctor", "--operator-namespace", "weft-system")
    assert called.status == 1
    assert "may not create trainingjobs in 'research' (used by submit)" in called.out
    assert any("/namespaces/weft-system/leases" in path for path, _ in patient.asked)


def test_queues_that_serve_nobody(weft: Weft, patient: FakeApi) -> None:
    patient.things[QUEUES] = [
        a_queue("prod", spec={"namespaces": ["prod"]}, status=ready(False, "its parent is missing"))
    ]
    called = weft("doctor")
    assert "'prod': its parent is missing" in called.out
    assert "no queue takes jobs of namespace 'research'" in called.out
    patient.things[QUEUES] = []
    assert "there is no queue" in weft("doctor").out


def test_a_cluster_without_gpus(weft: Weft, patient: FakeApi) -> None:
    patient.things[NODES] = [a_node("cpu-1", gpus=0)]
    assert "none of 1 nodes offers nvidia.com/gpu" in weft("doctor").out


def test_a_cluster_with_all_in_place(weft: Weft, patient: FakeApi) -> None:
    patient.things[LEASES] = [a_lease()]
    lease = patient.things[LEASES][0]["spec"]
    lease["renewTime"] = datetime.now(UTC).isoformat()
    called = weft("doctor")
    assert called.status == 0
    assert "0 to mend" in called.out


def test_a_check_that_breaks_is_a_finding(weft: Weft, patient: FakeApi) -> None:
    del patient.things[NODES]
    called = weft("doctor", "-o", "json")
    assert [line["verdict"] for line in called.json["findings"] if line["check"] == "gpus"] == [
        "fail"
    ]
