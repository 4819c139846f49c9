"""Who is interrupted for others: none that could only begin anew, and nobody is spared for ever."""

from dataclasses import replace
from typing import Any

import pytest

from tests.local.builders import a_machine, an_entry
from tests.local.daemons import Lab, a_lab, wait_until
from weft.local.reconcile.parsed_request import MachineLimits, parse_request
from weft.local.reconcile.preemption import gives_way
from weft.local.record.entry import NO_PROGRESS, Progress
from weft.model.errors import InfeasibleSpec
from weft.spec.job_file import JobSpec
from weft.spec.reading import validated

SHORTEST_FIRST = "srtf(spacing=0.1, min_run=0.0)"
UNSAVED = "model total=100000 step=0.02"
SAVED, LIVE = Progress(step=9, saved_step=4), Progress(step=9, live=True)
DAY_SECONDS = 86_400.0


@pytest.mark.parametrize(
    ("said", "progress", "ran", "expected"),
    [
        ({}, NO_PROGRESS, 1e4, False),
        ({}, Progress(step=9, live=False), 1e4, False),
        ({}, SAVED, 10.0, True),
        ({}, LIVE, 10.0, True),
        ({}, NO_PROGRESS, DAY_SECONDS, True),
        ({"preemptible": True}, NO_PROGRESS, 10.0, True),
        ({"checkpoint": {"every": "10m"}}, NO_PROGRESS, 10.0, True),
        ({"preemptible": False}, SAVED, 1e4, False),
        ({"preemptible": False, "checkpoint": {"every": "10m"}}, SAVED, 1e4, False),
        ({"preemptible": False}, SAVED, DAY_SECONDS, True),
    ],
)
def test_who_gives_way(
    said: dict[str, Any], progress: Progress, ran: float, expected: bool
) -> None:
    spec = validated(JobSpec, {"run": "train", **said})
    assert gives_way(spec, progress, ran, protect_seconds=DAY_SECONDS) is expected


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, "before it has saved something, for up to 24 h"),
        ({"preemptible": True}, "starts from nothing"),
        ({"preemptible": False}, "for up to 24 h of each run"),
        ({"checkpoint": {"every": "10m"}}, "goes on from what it has saved"),
    ],
)
def test_whoever_submits_is_told_which_kind_it_is(said: dict[str, Any], words: str) -> None:
    notes = parse_request(an_entry(spec={"run": "train", **said}), a_machine()).notes
    assert words in notes[0]


def test_a_job_that_has_not_saved_is_not_stopped_for_another() -> None:
    with a_lab(recipe=SHORTEST_FIRST) as lab:
        lab.start()
        lab.submit("unsaved", UNSAVED, gpus=2, duration="2h")
        lab.wait_for("unsaved", "Running")
        lab.submit("agreed", UNSAVED, gpus=2, duration="1h", preemptible=True)
        lab.submit("short", UNSAVED, gpus=2, duration="10s")
        wait_until(lambda: (lab.entry("unsaved").progress.step or 0) > 50, "it to train on")
        assert lab.states() == {"unsaved": "Running", "agreed": "Queued", "short": "Queued"}
        lab.client.cancel("short")
        lab.let_finish("unsaved")
        lab.wait_for("agreed", "Running")
        lab.submit("shorter", UNSAVED, gpus=2, duration="10s")
        lab.wait_for("shorter", "Running")
        assert lab.entry("agreed").past.preemptions == 1
        assert lab.entry("unsaved").past.preemptions == 0


def test_a_job_that_has_saved_gives_way() -> None:
    with a_lab(recipe=SHORTEST_FIRST) as lab:
        lab.start()
        lab.submit("saves", f"{UNSAVED} save=10", gpus=2, duration="2h")
        lab.wait_for("saves", "Running")
        lab.submit("short", UNSAVED, gpus=2, duration="10s")
        lab.wait_for("short", "Running")
        assert lab.entry("saves").past.preemptions == 1


def test_nobody_keeps_the_machine_for_ever() -> None:
    with a_lab(recipe=SHORTEST_FIRST) as lab:
        with_customs(lab, protect_hours=1.5 / 3600)
        lab.start()
        lab.submit("firm", UNSAVED, gpus=2, duration="2h", preemptible=False)
        lab.wait_for("firm", "Running")
        lab.submit("short", UNSAVED, gpus=2, duration="10s")
        lab.wait_for("short", "Running")
        assert lab.entry("firm").past.preemptions == 1


def test_one_user_has_no_more_than_the_machine_allows() -> None:
    with a_lab(slots=3) as lab:
        with_customs(lab, user_slots=2)
        lab.start()
        lab.submit("wide", UNSAVED, gpus="1..3")
        lab.wait_for("wide", "Running")
        lab.submit("next", UNSAVED)
        wait_until(lambda: bool(lab.client.why("next").detail.reasons), "a reason")
        (reason, *_) = lab.client.why("next").detail.reasons
        assert reason.code == "Quota.Limit", reason
        assert lab.entry("wide").width == 2
        with pytest.raises(InfeasibleSpec, match="one user has at most 2"):
            lab.submit("wider", UNSAVED, gpus=3)
        lab.kill()
        lab.start()  # the cap holds for those who are found running too
        lab.wait_for("wide", "Running")
        assert lab.state("next") == "Queued"
        lab.let_finish("wide")
        lab.wait_for("next", "Running")


def test_the_cap_of_a_user_bounds_what_a_range_asks_for() -> None:
    entry = an_entry(spec={"run": "train", "resources": {"gpus": "1..4"}})
    job = parse_request(entry, a_machine(slots=4), MachineLimits(user_slots=3)).job
    assert (job.width.max_gpus, job.queue) == (3, "alice")


def with_customs(lab: Lab, **limits: Any) -> None:
    lab.options = replace(lab.options, **limits)
