"""Each pod of a job writes its own part of a checkpoint, and there is one when all parts are."""

import signal
from pathlib import Path

import pytest

from tests.train.alone import undisturbed
from tests.train.lines import applied, finals
from tests.train.membership.test_pods import DRAINED, PAUSE, STEPS, TOTAL, elastic
from tests.train.pods import Fleet, Pod, fleet
from tests.waiting import until
from weft.agent.checkpoint.vault import Checkpoint, Vault

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.enable_socket]


def newest(folder: Path) -> Checkpoint | None:
    return Vault(folder / "kept" / "weft", "lab/job", 99).newest().checkpoint


def until_newer(pods: Fleet, folder: Path, step: int) -> Checkpoint:
    """A whole checkpoint of a later step."""

    def found() -> Checkpoint | None:
        one = newest(folder)
        return one if one is not None and one.step > step else None

    checkpoint = until(found, f"a checkpoint after step {step}", state=pods.tails)
    assert checkpoint is not None
    return checkpoint


def parts(checkpoint: Checkpoint) -> list[int]:
    return [shard.bytes for shard in checkpoint.manifest.shards]


def until_said(pod: Pod, words: str) -> None:
    until(lambda: any(words in line for line in list(pod.printed)), words, state=pod.tail)


def test_two_pods_write_half_each_and_a_slow_one_holds_nobody_up(tmp_path: Path) -> None:
    given = {**elastic(tmp_path, width=2), "WEFT_CHECKPOINT_EVERY_SECONDS": "0.3"}
    with fleet(tmp_path, "mlp.py", *STEPS, *PAUSE, **given) as pods:
        head, other = pods.pod(0), pods.pod(1, SLOW_WRITES="0.7")
        head.steady(2)
        found = until_newer(pods, tmp_path, 0)
        first, second = parts(found)
        assert max(first, second) < 1.5 * min(first, second)
        later = until_newer(pods, tmp_path, found.step)
        assert later.step >= found.step + 3, "it trains on while the slow one writes"
        head.signal(signal.SIGTERM)
        assert (head.wait(), other.wait()) == (DRAINED, DRAINED), pods.tails()
    last = newest(tmp_path)
    assert last is not None
    assert (last.step, len(parts(last))) == (pods.newest_step, 2)
    goes_on(tmp_path, last.step)


def test_a_writer_that_is_killed_half_way_leaves_no_checkpoint_and_that_is_told(
    tmp_path: Path,
) -> None:
    given = {**elastic(tmp_path, width=2), "WEFT_CHECKPOINT_EVERY_SECONDS": "2"}
    with fleet(tmp_path, "mlp.py", *STEPS, *PAUSE, **given) as pods:
        head, victim = pods.pod(0), pods.pod(1, WEFT_CRASH="save-half")
        assert victim.wait() == -signal.SIGKILL, pods.tails()
        head.until(lambda e: e["event"] == "lost")
        until_said(head, "1 of 2 parts of step")
        saved = [e["step"] for e in head.named("saved")]
        whole = until_newer(pods, tmp_path, 0)
        assert whole.step not in saved[:2]
        assert len(parts(whole)) == 1
        head.signal(signal.SIGTERM)
        assert head.wait() == DRAINED, pods.tails()
    last = newest(tmp_path)
    assert last is not None
    assert (last.step, len(parts(last))) == (pods.newest_step, 1)


def goes_on(folder: Path, before: int) -> None:
    """One pod resumes what two have written, and comes to the same bits as nobody disturbed."""
    with fleet(folder / "again", "mlp.py", *STEPS, **elastic(folder, width=1)) as second:
        assert second.pod(0, epoch=2).wait() == 0, second.tails()
    assert applied(second.lines()) == {"0": list(range(before + 1, TOTAL))}
    (end,) = finals(second.lines())
    assert end["digest"] == undisturbed("mlp.py", *STEPS)["digest"]
