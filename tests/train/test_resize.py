"""Real processes grow, shrink and drain while they train, and lose nothing."""

from pathlib import Path

import pytest

from tests.train.driving import driven
from tests.train.lines import check_each_once

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

STEP = ("--pause", "0.03")


def test_a_job_grows_and_shrinks_without_losing_a_sample(tmp_path: Path) -> None:
    with driven(tmp_path, "mlp.py", "--total", "400", *STEP, agent=("-n", "1")) as job:
        job.reached(5)
        job.order("resize 2")
        grown = job.steady(2)
        job.reached(job.newest_step + 5)
        job.order("resize 1")
        job.steady(1, after=grown["epoch"])
        assert job.wait() == 0, job.logs()
    check_each_once(job.lines(), total=400)
