"""Numbers in sentences, and remedies that are none."""

import pytest

from weft.model.reason import Reason, ReasonCode
from weft.view.reasons import as_json, counted, possible


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1 GPUs are free", "1 GPU is free"),
        ("1 suitable GPUs are free, but", "1 suitable GPU is free, but"),
        ("1 of 4 suitable GPUs are free; this job", "1 of 4 suitable GPUs is free; this job"),
        ("This job needs 1 GPUs and queue", "This job needs 1 GPU and queue"),
        ("After 1 failures it is tried", "After 1 failure it is tried"),
        ("It fits now on 1 nodes at 1.10 times", "It fits now on 1 node at 1.10 times"),
        ("11 GPUs are free", "11 GPUs are free"),
        ("2.1 GPUs are free", "2.1 GPUs are free"),
        ("0 of 1 suitable GPUs are free", "0 of 1 suitable GPU is free"),
        ("21 of 41 suitable GPUs are free", "21 of 41 suitable GPUs are free"),
    ],
)
def test_one_is_not_several(written: str, read: str) -> None:
    assert counted(written) == read


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (
            "wait for running jobs to end, or ask for no more than is free (0)",
            "wait for running jobs to end",
        ),
        (
            "wait for running jobs to end, or ask for no more than is free (10)",
            "wait for running jobs to end, or ask for no more than is free (10)",
        ),
        (
            "ask for a width of at most 0, allow more nodes, or wait for neighbours to end",
            "allow more nodes, or wait for neighbours to end",
        ),
        (
            "ask for at most 0 GPUs, fewer CPUs or devices, or more nodes",
            "ask for fewer CPUs or devices, or more nodes",
        ),
        ("ask for at most 1 GPUs, or raise the limit", "ask for at most 1 GPU, or raise the limit"),
        ("ask for at most 0 GPUs", "wait"),
    ],
)
def test_a_remedy_can_be_followed(written: str, read: str) -> None:
    assert possible(written) == read


@pytest.mark.parametrize("code", ReasonCode)
def test_no_reason_advises_to_ask_for_nothing(code: ReasonCode) -> None:
    class Zero(dict[str, object]):
        def __missing__(self, name: str) -> object:
            return 0

    remedy = possible(code.remedy.format_map(Zero()))
    assert "at most 0" not in remedy
    assert "(0)" not in remedy
    assert remedy


def test_a_busy_machine_is_told_as_it_is() -> None:
    reason = Reason(ReasonCode.CAPACITY_BUSY, {"free": 0, "total": 2, "need": 1})
    told = as_json(reason)
    assert told["text"] == "0 of 2 suitable GPUs are free; this job needs 1."
    assert told["remedy"] == "wait for running jobs to end"
