"""Real processes grow, shrink and drain while they train, and lose nothing."""

from pathlib import Path

import pytest

from tests.train.driving import driven

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

STEP = ("--pause", "0.03")


def counted(lines: list[dict[str, object]]) -> dict[int, list[int]]:
    """The samples of each step that was applied."""
    found: dict[int, list[int]] = {}
    for line in lines:
        if line.get("stepped") and line.get("ids"):
            found.setdefault(int(str(line["step"])), []).extend(line["ids"])  # type: ignore[arg-type]
    return found


def test_a_job_grows_and_shrinks_without_losing_a_sample(tmp_path: Path) -> None:
    with driven(tmp_path, "mlp.py", "--total", "400", *STEP, agent=("-n", "1")) as job:
        job.reached(5)
        job.order("resize 2")
        grown = job.steady(2)
        job.reached(max(line["step"] for line in job.lines()) + 5)
        job.order("resize 1")
        job.steady(1, after=grown["epoch"])
        assert job.wait() == 0, job.logs()
    samples = counted(job.lines())
    assert sorted(samples) == list(range(400))
    for step, ids in samples.items():
        assert len(ids) == 16, f"step {step} used {len(ids)} samples"
    for first in range(0, 400, 10):
        whole_pass = [i for step in range(first, first + 10) for i in samples[step]]
        assert sorted(whole_pass) == list(range(160))
