"""Workers that hold one model together, and a batch that does not come out even between them."""

from pathlib import Path

import pytest

from tests.train.alone import undisturbed
from tests.train.driving import driven
from tests.train.lines import finals

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.mark.parametrize(
    ("width", "options"),
    [
        ("2", ("--batch", "1")),  # one of two has no sample
        ("2", ("--batch", "9", "--micro", "4")),  # five samples and four: two micro-batches each
        ("4", ("--batch", "3", "--micro", "1")),  # one of the second replica has none
        ("4", ("--batch", "1")),  # nobody of the second replica has one
    ],
    ids=str,
)
def test_any_batch_comes_to_what_one_worker_comes_to(
    tmp_path: Path, width: str, options: tuple[str, ...]
) -> None:
    every = ("--total", "12", "--hidden", "8", *options)
    with driven(tmp_path, "mlp.py", *every, agent=("-n", width, "--shard", "2")) as job:
        assert job.wait() == 0, job.logs()
    expected = undisturbed("mlp.py", *every)["loss"]
    for end in finals(job.lines()):
        assert end["loss"] == pytest.approx(expected, abs=1e-5)


def test_running_means_are_those_of_all_samples(tmp_path: Path) -> None:
    """Each of those who hold a model together has seen its own samples only."""
    every = ("--total", "12", "--hidden", "8", "--norm", "--batch", "16")
    with driven(tmp_path, "mlp.py", *every, agent=("-n", "4", "--shard", "2")) as job:
        assert job.wait() == 0, job.logs()
    expected = undisturbed("mlp.py", *every, "--micro", "4")["loss"]
    losses = [end["loss"] for end in finals(job.lines())]
    assert losses == [pytest.approx(expected, abs=0.05)] * 4
