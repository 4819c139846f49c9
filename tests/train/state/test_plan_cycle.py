"""State goes from plan to plan: every parameter and every moment bit for bit, in one group."""

import json
import os
from pathlib import Path

import pytest

from tests.train.cradle import ROOT, begin
from tests.waiting import HANG_SECONDS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

PROGRAM = Path(__file__).parent / "plan_cycle.py"
STAGES = "pipeline=2,micro_batches=2"
OF_TWO = ("replicated", "tensor=2", "shard=2", STAGES, "replicated", STAGES, "tensor=2")
OF_FOUR = (
    "tensor=4",
    "shard=2,tensor=2",
    f"{STAGES},tensor=2",
    "shard=4",
    f"{STAGES},shard=2",
    "shard=2,tensor=2",
    "replicated",
)


@pytest.mark.parametrize("plans", [OF_TWO, OF_FOUR], ids=["two", "four"])
def test_parameters_and_moments_are_bit_equal_after_each_switch(
    tmp_path: Path, plans: tuple[str, ...]
) -> None:
    world = 2 if plans is OF_TWO else 4
    run(tmp_path, plans, world)
    for number in range(1, len(plans)):
        before, after = whole(tmp_path, f"{number - 1}-ended"), whole(tmp_path, f"{number}-begun")
        assert before == after, f"{plans[number - 1]} -> {plans[number]}"
        assert sum(name.startswith("optimizer/") for name in after) > len(after) / 2
    (alone := tmp_path / "alone").mkdir()
    run(alone, ("replicated",) * len(plans), 1)
    for number in range(len(plans)):
        expected = mean_loss(alone, number)
        assert mean_loss(tmp_path, number) == pytest.approx(expected, abs=1e-3), plans[number]


def run(folder: Path, plans: tuple[str, ...], world: int) -> None:
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1"}
    workers = [
        begin(
            [str(PROGRAM), str(rank), str(world), str(folder), *plans],
            agent=False,
            folder=folder,
            env=env,
        )
        for rank in range(world)
    ]
    for worker in workers:
        assert worker.wait(HANG_SECONDS) == 0, worker.stderr.read()


def whole(folder: Path, when: str) -> dict[str, str]:
    """What all workers hold together; who holds the same tensor must hold the same numbers."""
    found: dict[str, str] = {}
    for path in sorted(folder.glob(f"{when}-*.json")):
        for name, digest in json.loads(path.read_text()).items():
            assert found.setdefault(name, digest) == digest, name
    return found


def mean_loss(folder: Path, number: int) -> float:
    told = [float(path.read_text()) for path in folder.glob(f"loss-{number}-*")]
    return sum(told) / len(told)
