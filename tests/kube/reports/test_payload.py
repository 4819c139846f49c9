"""What is a report and what is not, whatever bytes come."""

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kube.reports.reporting import is_sound
from weft.kube.reports.payload import (
    MOST_METRICS,
    MOST_NUMBER,
    KubeflowTrainerStatus,
    MeasuredSpeed,
    Report,
    StageTimes,
    Unit,
    WeftReport,
    read_kubeflow,
    read_weft,
)
from weft.kube.reports.refusal import Refusal


@pytest.mark.parametrize(
    ("metrics", "unit", "done", "total"),
    [
        ({"current_step": "30", "total_steps": "70"}, Unit.STEPS, 30, 70),
        ({"current_step": "71", "total_steps": "70"}, Unit.PERCENT, 42, 100),
        ({"current_step": "-1", "total_steps": "70"}, Unit.PERCENT, 42, 100),
        ({"current_step": "0", "total_steps": "0"}, Unit.PERCENT, 42, 100),
        ({"total_steps": "70"}, Unit.PERCENT, 42, 100),
    ],
)
def test_steps_are_finer_than_percent(
    metrics: dict[str, str], unit: Unit, done: float, total: float
) -> None:
    named = [{"name": name, "value": value} for name, value in metrics.items()]
    body = {"trainerStatus": {"progressPercentage": 42, "metrics": named}}
    report = read_kubeflow(json.dumps(body).encode())
    assert (report.unit, report.done, report.total) == (unit, done, total)


def test_an_empty_report_of_kubeflow_says_nothing() -> None:
    for body in (b"{}", b'{"trainerStatus": {}}', b'{"trainerStatus": null}'):
        assert read_kubeflow(body) == Report(unit=Unit.PERCENT)
        assert read_kubeflow(body).fraction is None


def test_at_most_so_many_metrics_are_kept() -> None:
    named = [{"name": f"m{number}", "value": str(number)} for number in range(256)]
    report = read_kubeflow(json.dumps({"trainerStatus": {"metrics": named}}).encode())
    assert list(report.metrics) == [f"m{number}" for number in range(MOST_METRICS)]
    assert len(report.left_out) == MOST_METRICS


INVALID = [
    (400, b""),
    (400, b"step"),
    (400, b'{"step": 3'),
    (400, b'{"step": NaN}'),
    (400, b'{"step": 3, "loss": Infinity}'),
    (400, b"\xff\xfe"),
    (400, b"[" * 5000),
    (422, b"null"),
    (422, b"[]"),
    (422, b"{}"),
    (422, b'{"step": -1}'),
    (422, b'{"step": 1.5}'),
    (422, b'{"step": 3.0}'),
    (422, b'{"step": "3"}'),
    (422, b'{"step": true}'),
    (422, b'{"step": 9007199254740992}'),
    (422, b'{"step": 10000000000000000000000000000}'),
    (422, b'{"step": 3, "total_steps": 0}'),
    (422, b'{"step": 3, "total_steps": 2}'),
    (422, b'{"step": 3, "checkpoint_step": 4}'),
    (422, b'{"step": 3, "loss": 1e19}'),
    (422, b'{"step": 3, "loss": "NaN"}'),
    (422, b'{"step": 3, "throughput": -1}'),
    (422, b'{"step": 3, "stages": {"gpu": -0.5}}'),
    (422, b'{"step": 3, "stages": {"tpu": 1}}'),
    (422, b'{"step": 3, "message": "a\\nb"}'),
    (422, b'{"step": 3, "message": "\\u001b[2J"}'),
    (422, b'{"step": 3, "message": "\\u202egnp"}'),
    (422, b'{"step": 3, "message": "%s"}' % (b"x" * 257)),
    (422, b'{"step": 3, "epoch": 1}'),
    (422, b'{"step": 3, "paused_seconds": -1}'),
    (422, b'{"step": 3, "speed": {"number": 1, "width": 2, "steps_per_second": 3}}'),
    (422, b'{"step": 3, "speed": {"number": 1, "width": 2, "steps_per_second": 0, "seconds": 1}}'),
    (422, b'{"step": 3, "speed": {"number": 1, "width": 0, "steps_per_second": 3, "seconds": 1}}'),
    (422, b'{"step": 3, "job": "lab/vit"}'),
    (422, b'{"step": 3, "offers": "tensor"}'),
    (422, b'{"step": 3, "offers": ["a\\nb"]}'),
    (422, b'{"step": 3, "offers": [%s]}' % b",".join([b'"tensor"'] * 33)),
    (422, b'{"step": 3, "order": {"serial": 0, "reached": true}}'),
    (422, b'{"step": 3, "order": {"serial": 1}}'),
    (422, b'{"step": 3, "order": {"serial": 1, "reached": 1}}'),
    (422, b'{"step": 3, "order": {"serial": 1, "reached": true, "paused_seconds": -1}}'),
]


@pytest.mark.parametrize(("status", "body"), INVALID)
def test_what_is_not_a_report(status: int, body: bytes) -> None:
    with pytest.raises(Refusal) as refusal:
        read_weft(body)
    assert refusal.value.status == status
    assert refusal.value.hint


def test_no_number_is_beyond_bounds_whatever_the_reader_makes_of_it() -> None:
    """Some readers of JSON turn this into an infinity; ours refuses it, and the schema would."""
    with pytest.raises(Refusal) as refusal:
        read_weft(b'{"step": 3, "loss": 1e999}')
    assert refusal.value.status in (400, 422)
    for value in (
        "1e999",
        "1e19",
        "inf",
        "-Infinity",
        "0x10",
        "1_000",
        "\u0661",
        " 1",
        "1e",
        "1" * 64,
    ):
        body = {"trainerStatus": {"metrics": [{"name": "loss", "value": value}]}}
        assert read_kubeflow(json.dumps(body).encode()).metrics == {}


@pytest.mark.parametrize(
    "body",
    [
        {"trainerStatus": {"progressPercentage": 101}},
        {"trainerStatus": {"progressPercentage": -1}},
        {"trainerStatus": {"progressPercentage": 4.5}},
        {"trainerStatus": {"estimatedRemainingSeconds": 2**31}},
        {"trainerStatus": {"metrics": [{"name": "loss", "value": 1.5}]}},
        {"trainerStatus": {"metrics": [{"name": "", "value": "1"}]}},
        {"trainerStatus": {"metrics": [{"name": "a" * 65, "value": "1"}]}},
        {"trainerStatus": {"metrics": [{"name": "a", "value": "1"}] * 257}},
        {"trainerStatus": {"phase": "Running"}},
        {"status": {}},
    ],
)
def test_what_is_not_a_report_of_kubeflow(body: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as refusal:
        read_kubeflow(json.dumps(body).encode())
    assert refusal.value.status == 422


def test_a_fault_is_named_by_its_place_and_repeats_no_value() -> None:
    body = {"step": "sesame", "\x1b[31m<script>" + "y" * 100: 1}
    with pytest.raises(Refusal) as refusal:
        read_weft(json.dumps(body).encode())
    told = str(refusal.value)
    assert "step: Input should be a valid integer" in told
    assert r"\x1b[31m<script>yyy" in told
    assert "unknown field" in told
    assert "sesame" not in told
    assert "\x1b" not in told
    assert "y" * 60 not in told


finite = st.floats(allow_nan=False, allow_infinity=False)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
field_names = st.sampled_from(
    [
        *WeftReport.model_fields,
        *StageTimes.model_fields,
        *MeasuredSpeed.model_fields,
        *KubeflowTrainerStatus.model_fields,
        "trainerStatus",
        "name",
        "value",
    ]
)
report_like = st.recursive(
    anything | st.sampled_from([10**400, -(10**400), 1e308, -0.0, 2**63]),
    lambda inner: st.dictionaries(field_names, inner, max_size=6) | st.lists(inner, max_size=3),
    max_leaves=20,
)


speeds = st.fixed_dictionaries(
    {
        "number": st.integers(1, 10**6),
        "width": st.integers(1, 10**4),
        "steps_per_second": st.floats(1e-9, 1e6),
        "seconds": st.floats(1e-9, 1e6),
        "shared": st.booleans(),
    }
)


@given(st.binary(max_size=200) | report_like.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_report_or_refused(body: bytes) -> None:
    for read in (read_weft, read_kubeflow):
        try:
            report = read(body)
        except Refusal as refusal:
            assert refusal.status in (400, 422)
            assert len(str(refusal)) < 1000
            assert str(refusal).isprintable()
        else:
            assert is_sound(report)


@given(
    st.fixed_dictionaries(
        {"step": st.integers(0, 10**6)},
        optional={
            "loss": finite.filter(lambda value: abs(value) <= MOST_NUMBER),
            "samples": st.integers(0, 10**12),
            "speed": speeds,
            "paused_seconds": st.floats(0, 1e6),
            "message": st.text(alphabet=st.characters(categories=["L", "N", "P"]), max_size=256),
        },
    )
)
def test_every_sound_report_is_heard(body: dict[str, Any]) -> None:
    report = read_weft(json.dumps(body).encode())
    assert report.done == body["step"]
    assert report.metrics.get("loss") == body.get("loss")
    assert report.paused_seconds == body.get("paused_seconds")
    told = None if report.speed is None else asdict(report.speed)
    assert told == body.get("speed")
