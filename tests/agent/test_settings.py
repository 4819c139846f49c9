"""What a pod's variables say, and what they must say."""

from pathlib import Path

import pytest

from weft.agent.checkpoint.cadence import Cadence
from weft.agent.settings import from_environment
from weft.failure.interval import Advice
from weft.model.errors import SpecError

COMMAND = ("python", "train.py")
TOLD = {
    "WEFT_JOB": "lab/llama",
    "WEFT_EPOCH": "7",
    "WEFT_SEAT": "2",
    "WEFT_SEAT_GPUS": "4",
    "WEFT_POD_IP": "10.0.0.9",
    "WEFT_MIN_GPUS": "4",
    "WEFT_MAX_GPUS": "16",
    "WEFT_WIDTH": "12",
    "WEFT_REPORT_URL": "http://operator/report",
    "WEFT_TOKEN_FILE": "/var/run/weft/token",
    "WEFT_CHECKPOINT_PATH": "/ckpt",
    "WEFT_CHECKPOINT_EVERY_SECONDS": "600",
    "WEFT_SAVE_ADVICE": "100000000:1800",
    "WEFT_GRACE_SECONDS": "90",
}


def test_everything_is_taken_from_the_pod() -> None:
    found = from_environment(COMMAND, TOLD)
    assert (found.job, found.incarnation, found.width, found.shard) == ("lab/llama", 7, 12, 1)
    assert (found.save_every_seconds, found.grace_seconds) == (600.0, 90.0)
    assert found.cadence == Cadence(600.0, Advice(1e8, 1800.0))
    assert found.checkpoints == Path("/ckpt/weft")
    assert found.shared_vault is not None
    assert found.shared_vault.root == Path("/ckpt/weft")
    pod = found.pod
    assert pod is not None
    assert (pod.seat, pod.gpus, pod.host, pod.is_head) == (2, 4, "10.0.0.9", False)
    assert (pod.least_gpus, pod.most_gpus) == (4, 16)
    assert pod.destination is not None
    assert pod.destination.epoch == 7


def test_a_pod_may_be_told_nothing() -> None:
    found = from_environment(COMMAND, {})
    assert (found.width, found.checkpoints, found.shared_vault) == (1, None, None)
    assert found.pod is not None
    assert found.pod.is_head


@pytest.mark.parametrize(
    ("command", "nproc", "once"),
    [
        (COMMAND, None, False),  # of an operator that does not know the field
        (COMMAND, "gpu", False),
        (COMMAND, "1", True),
        (("torchrun", "train.py"), "gpu", True),
    ],
)
def test_whether_one_process_has_all_gpus_of_a_pod(
    command: tuple[str, ...], nproc: str | None, once: bool
) -> None:
    told = TOLD if nproc is None else {**TOLD, "WEFT_NPROC_PER_NODE": nproc}
    assert from_environment(command, told).once_per_seat is once


@pytest.mark.parametrize("variables", [{"WEFT_SEAT": "1"}, {"WEFT_WIDTH": "2"}])
def test_who_is_not_alone_must_know_where_to_meet(variables: dict[str, str]) -> None:
    with pytest.raises(SpecError, match="where to meet"):
        from_environment(COMMAND, variables)


@pytest.mark.parametrize(
    "variables",
    [{"WEFT_SEAT": "-1"}, {"WEFT_SEAT_GPUS": "0"}, {"WEFT_GRACE_SECONDS": "soon"}],
)
def test_what_is_no_number_is_told(variables: dict[str, str]) -> None:
    with pytest.raises(SpecError, match=next(iter(variables))):
        from_environment(COMMAND, variables)


def test_pods_need_a_folder_for_their_checkpoints() -> None:
    """A path made of an address would be a folder with a strange name, and nobody would know."""
    with pytest.raises(SpecError, match="WEFT_CHECKPOINT_PATH is s3://bucket/x"):
        from_environment(COMMAND, {"WEFT_CHECKPOINT_PATH": "s3://bucket/x"})
