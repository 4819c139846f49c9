"""`weft why` in a world with a real daemon: who holds what, and what has become of whom."""

import pytest

from tests.cli.called import Weft
from tests.cli.local_world import daemon, here
from tests.local.daemons import Lab
from weft.cli.jobs.why_world import growth_words
from weft.view.jobs import Growth

pytestmark = pytest.mark.slow  # a real daemon

__all__ = ["daemon", "here"]


def test_a_job_that_is_over_is_told_how_and_when_it_ended(here: Lab, weft: Weft) -> None:
    assert weft("run", "--name", "over", "true").status == 0
    called = weft("why", "over")
    assert called.status == 0, called.err
    assert "over: Succeeded · waited 0s · ran " in called.out
    assert "It is over: it succeeded " in called.out
    assert " ago: the script has ended" in called.out
    assert weft("why", "over", "-o", "json").json["ended_at"]
    missing = weft("why", "ovr")
    assert missing.status == 2
    assert "did you mean over?" in missing.err


def test_whoever_waits_is_told_who_holds_the_gpus(here: Lab, weft: Weft) -> None:
    here.submit("wide", "sleep 300", 2)
    here.wait_for("wide", "Running")
    here.submit("late", "true", 1)
    here.wait_for("late", "Queued")
    called = weft("why", "late")
    assert "0 of 2 suitable GPUs are free; this job needs 1." in called.out
    assert "remedy: wait for running jobs to end\n" in called.out
    assert "/wide (2 GPUs)" in called.out
    (holder,) = weft("why", "late", "-o", "json").json["holders"]
    assert (holder["job"], holder["gpus"]) == ("wide", 2)
    running = weft("why", "wide")
    assert "It does not wait.\n2 of 2 GPUs: all that it may have\n" in running.out
    assert running.out.count("held by") == 0
    assert weft("cancel", "wide", "late").status == 0


@pytest.mark.parametrize(
    ("growth", "words"),
    [
        (Growth(1, 4, 2, 0.031), "1 of 4 GPUs: a second would bring 3 %"),
        (Growth(2, 4, 3, 0.5), "2 of 4 GPUs: a third would bring 50 %"),
        (Growth(7, 16, 8, 0.1), "7 of 16 GPUs: one more would bring 10 %"),
        (Growth(1, 2, 2, -0.2), "1 of 2 GPUs: a second is no use"),
        (Growth(1, 2), "1 of 2 GPUs: what more would bring is not measured yet"),
        (Growth(1, 1), "1 of 1 GPU: all that it may have"),
    ],
)
def test_what_more_gpus_would_bring(growth: Growth, words: str) -> None:
    assert growth_words(growth) == words
