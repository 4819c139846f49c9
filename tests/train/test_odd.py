"""Loops as people write them come to the same alone, on three workers, and across resizes."""

import signal
from pathlib import Path

import pytest

from tests.train.alone import undisturbed
from tests.train.driving import Driven, driven
from tests.train.lines import applied, finals

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

KINDS = (
    "adversarial",
    "validation",
    "early_break",
    "early_return",
    "caught",
    "kept",
    "twice",
    "accumulation",
    "clip",
    "freezing",
)
TOTAL = 60


def check(job: Driven, kind: str) -> None:
    (job.folder / "hurry").touch()
    assert job.wait() == 0, job.logs()
    expected = undisturbed("odd.py", kind)
    assert expected["steps"] == TOTAL
    ends = finals(job.lines())
    assert ends
    assert len({end["digest"] for end in ends}) == 1, "they have come to different weights"
    for end in ends:
        assert end["steps"] == TOTAL
        assert end["weights"] == pytest.approx(expected["weights"], abs=1e-4)
    for worker, steps in applied(job.lines()).items():
        assert steps == list(range(steps[0], steps[0] + len(steps))), worker


@pytest.mark.parametrize("kind", KINDS)
def test_across_resizes_and_a_loss(tmp_path: Path, kind: str) -> None:
    with driven(tmp_path, "odd.py", kind, "0.1", agent=("-n", "1")) as job:
        job.reached(12)
        job.order("resize 3")
        epoch = job.steady(3)["epoch"]
        job.reached(job.newest_step + 2)
        job.signal(signal.SIGKILL, worker=0)
        job.steady(3, after=epoch)
        check(job, kind)
