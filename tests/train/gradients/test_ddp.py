"""Jobs whose gradients torch's DistributedDataParallel sums, over groups that Weft makes."""

import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import weft
from tests.train.alone import undisturbed
from tests.train.driving import Driven, driven
from tests.train.lines import applied, by_step, check_each_once, finals
from weft.agent.plan import Plan
from weft.model.errors import SpecError
from weft.train.gradients.communication import communication_of
from weft.train.gradients.level import Level

TOTAL = 40
STEPS = ("--total", str(TOTAL), "--communication", "ddp")
PAUSE = ("--pause", "0.02")


def ended_as_undisturbed(job: Driven, survivors: tuple[int, ...]) -> None:
    """All steps once on every survivor, each sample once, and the loss of a run without DDP."""
    assert job.wait() == 0, job.logs()
    lines = job.lines()
    check_each_once(lines, total=TOTAL)
    for worker in survivors:
        assert applied(lines)[str(worker)] == list(range(TOTAL))
    expected = undisturbed("mlp.py", *STEPS[:2])["loss"]
    for end in finals(lines):
        assert end["loss"] == pytest.approx(expected, abs=1e-3)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("points", [("bucket-sent", "summed"), ("after-backward", "vote-cast")])
def test_one_of_three_is_killed_and_then_one_of_two(
    tmp_path: Path, points: tuple[str, str]
) -> None:
    """Whoever waits inside of DDP for one who has died is freed, and makes the step again."""
    first, second = points
    variables = {"CRASH_2": f"{first}#20", "CRASH_1": f"{second}#44"}
    with driven(tmp_path, "mlp.py", *STEPS, *PAUSE, agent=("-n", "3"), **variables) as job:
        ended_as_undisturbed(job, (0,))
    deaths = [(event["worker"], event["code"]) for event in job.named("exited")[:2]]
    assert (2, -signal.SIGKILL) in deaths


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_stopped_peer_is_given_up_within_the_limit(tmp_path: Path) -> None:
    """Its connections stay open, and half of a bucket is in them: only the cut frees DDP."""
    agent = ("-n", "3", "--hang", "3")
    few = ("--total", "14", *STEPS[2:])
    large = ("--hidden", "768", "--layers", "3")
    with driven(tmp_path, "mlp.py", *few, *large, "--fault", "stop", agent=agent) as job:
        assert job.wait() == 0, job.logs()
    check_each_once(job.lines(), total=14)
    assert job.named("exited")[0]["code"] == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_job_goes_on_without_ddp_from_what_it_has_saved_with_it(tmp_path: Path) -> None:
    """Names are the script's own, whoever sums."""
    agent = ("-n", "2", "--checkpoints", str(tmp_path / "kept"))
    with driven(tmp_path, "mlp.py", *STEPS, "--pause", "0.1", agent=agent) as job:
        job.reached(10)
        job.signal(signal.SIGTERM)
        assert job.wait() == 143, job.logs()
    with driven(tmp_path, "mlp.py", *STEPS[:2], agent=agent) as job:
        assert job.wait() == 0, job.logs()
    check_each_once(job.lines(), total=TOTAL)
    expected = undisturbed("mlp.py", *STEPS[:2])["loss"]
    assert finals(job.lines())[-1]["loss"] == pytest.approx(expected, abs=1e-3)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_sums_that_come_as_from_gpus(tmp_path: Path) -> None:
    """Grown, then one is killed in the middle of a sum: the branch for NCCL, without a GPU."""
    options = ("--total", "250", *STEPS[2:], "--pause", "0.05", "--norm", "--digest", "--dawdle")
    with driven(tmp_path, "mlp.py", *options, agent=("-n", "2")) as job:
        job.reached(3)
        job.order("resize 3")
        epoch = job.steady(3)["epoch"]
        job.reached(job.newest_step + 3)
        job.signal(signal.SIGKILL, worker=1)
        job.steady(3, after=epoch)
        job.reached(job.newest_step + 3)
        job.signal(signal.SIGTERM)
        assert job.wait() == 143, job.logs()
    for digests in by_step(job.lines()).values():
        assert len(set(digests)) == 1, "members of one epoch differ"


# ------------------------------------------------------------------------------ what is refused


def prepared(model: nn.Module | None = None, **how: Any) -> None:
    weft.prepare(model or nn.Linear(2, 1), lambda p: torch.optim.SGD(p, 0.1), **how)


@pytest.mark.parametrize(
    ("how", "why", "instead"),
    [
        ({"communication": "ddp", "determinism": "bitwise"}, "cannot be bitwise", "same_math"),
        ({"communication": "fsdp"}, "cannot lose one of them", "--shard"),
        ({"communication": "horovod"}, "no communication='horovod'", "'ddp'"),
    ],
    ids=["bitwise", "fsdp", "unknown"],
)
def test_what_cannot_be_had_is_refused_at_once(how: dict[str, Any], why: str, instead: str) -> None:
    with pytest.raises(SpecError, match=why) as refused:
        prepared(**how)
    assert instead in str(refused.value.hint)


def test_ddp_inside_of_a_sharded_replica_is_refused() -> None:
    with pytest.raises(SpecError, match="whole gradients") as refused:
        communication_of("ddp", Level.SAME_MATH, Plan(shard=2), fixed=True)
    assert "--shard" in str(refused.value.hint)


@pytest.mark.enable_socket
def test_a_script_that_wraps_ddp_itself_is_told_of_the_option() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    try:
        wrapped = DistributedDataParallel(nn.Linear(2, 1))
    finally:
        dist.destroy_process_group()
    for model in (wrapped, nn.Sequential(wrapped)):
        with pytest.raises(SpecError, match="wrapped in DistributedDataParallel") as refused:
            prepared(model)
        assert "communication='ddp'" in str(refused.value.hint)
