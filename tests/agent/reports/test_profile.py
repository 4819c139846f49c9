"""What a job's steps do alone, from a report of its stages."""

from typing import Any

import pytest

from weft.agent.reports.profile import Profile, profile_in_turns, profile_of

REPORT: dict[str, Any] = {
    "width": 2,
    "calibrated": True,
    "step": [0.5, 0.9],
    "resources": {"storage": 0.1, "cpu": 0.05, "gpu": 0.3},
    "peak_memory_bytes": 1 << 30,
}


def test_a_report_of_calibrating_and_of_usual_steps_is_a_profile() -> None:
    found = profile_of(REPORT)
    assert found == Profile(2, 0.5, 0.1, 0.05, 0.3, 0.0, 1 << 30)
    assert found is not None
    assert found.as_json()["network_seconds"] == 0.0


@pytest.mark.parametrize(
    "said",
    [
        {"calibrated": False},
        {"step": None},
        {"step": []},
        {"step": [0.0, 1.0]},
        {"step": [float("nan"), 1.0]},
        {"resources": None},
        {"resources": {}},
        {"resources": {"gpu": -1.0}},
        {"resources": {"gpu": float("inf")}},
        {"resources": {"gpu": "much"}},
        {"width": 0},
        {"width": True},
    ],
)
def test_what_is_not_all_there_is_none(said: dict[str, Any]) -> None:
    assert profile_of({**REPORT, **said}) is None


IN_TURNS = REPORT | {"exposed": {"token_wait": [0.125, 0.5], "forward": [0.3, 0.3]}}


def test_in_turns_a_step_is_what_is_left_without_the_waits_for_them() -> None:
    found = profile_in_turns(IN_TURNS)
    assert found == Profile(2, 0.375, 0.1, 0.05, 0.3, 0.0, 1 << 30)


@pytest.mark.parametrize("stage", ["storage", "gpu"])
def test_alone_nothing_would_be_hidden_behind_a_wait_for_a_turn(stage: str) -> None:
    found = profile_in_turns(IN_TURNS | {"resources": {"cpu": 0.0, stage: 0.45}})
    assert found is not None and found.step_seconds == 0.45


@pytest.mark.parametrize("exposed", [None, {}, {"token_wait": []}, {"token_wait": ["long"]}])
def test_who_waited_for_no_turn_has_no_profile_of_turns(exposed: object) -> None:
    assert profile_in_turns({**REPORT, "exposed": exposed}) is None
    assert profile_in_turns({**IN_TURNS, "calibrated": False}) is None


def test_memory_that_cannot_be_is_left_out() -> None:
    found = profile_of({**REPORT, "peak_memory_bytes": -1})
    assert found is not None and found.peak_bytes is None
    assert "peak_bytes" not in found.as_json()
