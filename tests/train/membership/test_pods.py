"""A job over several pods: it grows with them, shrinks with them, and loses no step."""

import ast
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.train.alone import undisturbed
from tests.train.driving import JOBS
from tests.train.lines import applied, check_each_once, finals
from tests.train.pods import Fleet, Pod, fleet
from tests.waiting import until
from weft.agent.checkpoint.vault import Vault
from weft.failure.last_words import read

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.enable_socket]

DRAINED, INFRASTRUCTURE = 143, 75
TOTAL = 250
STEPS = ("--total", str(TOTAL), "--level", "bitwise")
SHARDED = ("--total", str(TOTAL))
PAUSE = ("--pause", "0.1")


def elastic(folder: Path, *, width: int, least: int = 1, most: int = 4) -> dict[str, str]:
    return {
        "WEFT_WIDTH": str(width),
        "WEFT_MIN_GPUS": str(least),
        "WEFT_MAX_GPUS": str(most),
        "WEFT_CHECKPOINT_PATH": str(folder / "kept"),
    }


def gone(pods: Fleet, pid: int) -> None:
    """A process ends."""
    until(lambda: not runs(pid), f"process {pid} to end", state=pods.tails)


def runs(pid: int) -> bool:
    """Whether a process lives; a dead one may have nobody yet to bury it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def worker_of(pod: Pod) -> int:
    """The process of a pod's newest worker."""
    return int(pod.until(lambda e: e["event"] == "spawned")["pid"])


def test_pods_come_and_go_and_a_later_start_loses_no_step(tmp_path: Path) -> None:
    given = elastic(tmp_path, width=2)
    with fleet(tmp_path, "mlp.py", *STEPS, *PAUSE, **given) as pods:
        head, leaver = pods.pod(0), pods.pod(1)
        epoch = head.steady(2)["epoch"]
        victim = pods.pod(2)
        epoch = head.steady(3, after=epoch)["epoch"]

        leaver.signal(signal.SIGTERM)
        assert leaver.wait() == DRAINED, pods.tails()
        epoch = head.steady(2, after=epoch)["epoch"]
        assert [e["code"] for e in leaver.named("exited")] == [DRAINED]

        victim.signal(signal.SIGKILL)
        epoch = head.steady(1, after=epoch)["epoch"]
        gone(pods, worker_of(victim))

        last = pods.pod(3)
        head.steady(2, after=epoch)
        pods.reached(pods.newest_step + 3)
        head.signal(signal.SIGTERM)
        assert (head.wait(), last.wait()) == (DRAINED, DRAINED), pods.tails()
    left = read(pods.last_words(0))
    assert (left.why, left.told) == ("drained", True), "an agent's, and no program's"
    resumed(tmp_path, pods)


def resumed(folder: Path, first: Fleet) -> None:
    """A second start, in one pod, goes on with the step after the last one."""
    before = first.newest_step
    newest = Vault(folder / "kept" / "weft", "lab/job", 99).newest().checkpoint
    assert newest is not None
    assert newest.step == before
    with fleet(folder / "again", "mlp.py", *STEPS, **elastic(folder, width=1)) as second:
        assert second.pod(0, epoch=2).wait() == 0, second.tails()
    assert min(report["step"] for report in second.operator.reports) > before
    assert applied(second.lines()) == {"0": list(range(before + 1, TOTAL))}
    later = [{**line, "epoch": line["epoch"] + 1000} for line in second.lines() if "epoch" in line]
    check_each_once([*first.lines(), *later], total=TOTAL)
    (end,) = finals(second.lines())
    assert end["digest"] == undisturbed("mlp.py", *STEPS)["digest"]


def test_a_seat_that_comes_late_is_waited_for_by_whoever_saves_often(tmp_path: Path) -> None:
    """A snapshot that is due before anybody trains starts nobody."""
    every = {"WEFT_CHECKPOINT_EVERY_SECONDS": "0.01"}  # due before another pod can start
    with fleet(tmp_path, "mlp.py", *STEPS, **elastic(tmp_path, width=2), **every) as pods:
        head = pods.pod(0)
        head.until(lambda e: e["event"] == "listening")
        late = pods.pod(1)
        assert head.steady(2)["epoch"] == 1
        first = next(e["event"] for e in head.events if e["event"] in ("joined", "spawned"))
        assert first == "joined"
        assert [head.wait(), late.wait()] == [0, 0], pods.tails()


def test_two_pods_that_come_together_are_one_resize_and_one_that_stops_is_lost(
    tmp_path: Path,
) -> None:
    """A stopped machine resets no connection. When it wakes, its worker ends by itself."""
    with fleet(tmp_path, "mlp.py", *STEPS, *PAUSE, **elastic(tmp_path, width=1)) as pods:
        head = pods.pod(0)
        head.steady(1)
        stopped, other = pods.pod(1), pods.pod(2)
        grown = head.steady(3)["epoch"]
        assert [e["width"] for e in head.named("steady")] == [1, 3]

        stopped.signal(signal.SIGSTOP)
        os.kill(worker_of(stopped), signal.SIGSTOP)
        head.steady(2, after=grown)
        os.kill(worker_of(stopped), signal.SIGCONT)
        gone(pods, worker_of(stopped))
        stopped.signal(signal.SIGCONT)
        assert stopped.wait() == INFRASTRUCTURE, pods.tails()

        (tmp_path / "hurry").touch()
        assert (head.wait(), other.wait()) == (0, 0), pods.tails()
    check_each_once(pods.lines(), total=TOTAL)
    assert applied(pods.lines())["0"] == list(range(TOTAL))
    assert {report["live"] for report in pods.operator.reports} == {True}
    assert {report["width"] for report in pods.operator.reports} <= {1, 2, 3}


def test_a_pod_that_the_job_cannot_do_without_takes_it_along(tmp_path: Path) -> None:
    given = elastic(tmp_path, width=2, least=2)
    with fleet(tmp_path, "mlp.py", *STEPS, *PAUSE, **given) as pods:
        head, other = pods.pod(0), pods.pod(1)
        head.steady(2)
        pods.reached(3)
        other.signal(signal.SIGTERM)
        assert (head.wait(), other.wait()) == (DRAINED, DRAINED), pods.tails()
    resumed(tmp_path, pods)


def test_followers_end_with_their_head(tmp_path: Path) -> None:
    with fleet(tmp_path, "plain.py", "60", **elastic(tmp_path, width=2)) as pods:
        head, other = pods.pod(0), pods.pod(1)
        worker, orphan = worker_of(other), worker_of(head)
        head.signal(signal.SIGKILL)
        assert other.wait() == INFRASTRUCTURE, pods.tails()
        gone(pods, worker)
        os.kill(orphan, signal.SIGKILL)  # a plain script hears nothing of its agent's death
    assert "the head is gone" in pods.last_words(1)


@pytest.mark.parametrize(
    ("seats", "expected"),
    [
        (
            (2, 1),
            [("0", "0", "2", "0"), ("1", "1", "2", "0"), ("2", "0", "1", "1")],
        )
    ],
)
def test_a_plain_script_finds_its_place_among_all_pods(
    tmp_path: Path, seats: tuple[int, ...], expected: list[tuple[str, ...]]
) -> None:
    """Rank, local rank, local width and node; all know where rank 0 is."""
    given = elastic(tmp_path, width=sum(seats), least=sum(seats))
    with fleet(tmp_path, "plain.py", **given) as pods:
        started = [pods.pod(seat, gpus) for seat, gpus in enumerate(seats)]
        assert [pod.wait() for pod in started] == [0, 0], pods.tails()
    told = [ast.literal_eval(text) for pod in started for text in printed(pod)]
    told.sort(key=lambda line: int(line["RANK"]))
    names = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK")
    assert [tuple(line[name] for name in names) for line in told] == expected
    for line in told:
        assert (line["WORLD_SIZE"], line["PET_NNODES"]) == ("3", "2")
        assert (line["MASTER_ADDR"], line["MASTER_PORT"]) == ("127.0.0.1", "29500")
        assert line["PET_NPROC_PER_NODE"] == line["LOCAL_WORLD_SIZE"]
    assert all(text.startswith("[") for text in started[0].printed), "no ranks before the lines"


def printed(pod: Pod) -> list[str]:
    """What its workers printed, without ranks in front."""
    return [text[text.index("{") :] for text in pod.printed if "{" in text]


def test_a_launcher_is_started_once_for_each_pod(tmp_path: Path) -> None:
    launcher = tmp_path / "torchrun"
    launcher.write_text(f"#!/bin/sh\nexec {sys.executable} {JOBS / 'plain.py'}\n")
    launcher.chmod(0o755)
    given = elastic(tmp_path, width=4, least=4)
    with fleet(tmp_path, "plain.py", **given) as pods:
        pods.command = ("/bin/sh", "-c", f"exec {launcher} train.py")
        started = [pods.pod(0, 2), pods.pod(1, 2)]
        assert [pod.wait() for pod in started] == [0, 0], pods.tails()
    told = [ast.literal_eval(text) for pod in started for text in printed(pod)]
    names = ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR")
    assert [tuple(line[name] for name in names) for line in told] == [
        ("2", "2", "0", "127.0.0.1"),
        ("2", "2", "1", "127.0.0.1"),
    ]


def test_a_plain_script_is_started_once_for_each_pod_unless_it_says_otherwise(
    tmp_path: Path,
) -> None:
    given = elastic(tmp_path, width=4, least=4) | {"WEFT_NPROC_PER_NODE": "1"}
    with fleet(tmp_path, "plain.py", **given) as pods:
        started = [pods.pod(0, 2), pods.pod(1, 2)]
        assert [pod.wait() for pod in started] == [0, 0], pods.tails()
    told = [ast.literal_eval(text) for pod in started for text in printed(pod)]
    names = ("RANK", "WORLD_SIZE", "NODE_RANK", "PET_NPROC_PER_NODE", "WEFT_GPUS")
    assert [tuple(line[name] for name in names) for line in told] == [
        ("0", "2", "0", "2", "2"),
        ("1", "2", "1", "2", "2"),
    ]
    assert not any("LOCAL_RANK" in line for line in told)


def test_a_plain_script_is_drained_as_a_whole(tmp_path: Path) -> None:
    given = elastic(tmp_path, width=2)
    with fleet(tmp_path, "plain.py", "60", **given) as pods:
        head, other = pods.pod(0), pods.pod(1)
        worker_of(other)
        worker_of(head)
        other.signal(signal.SIGTERM)
        assert (head.wait(), other.wait()) == (DRAINED, DRAINED), pods.tails()


def test_an_error_of_the_script_is_what_every_pod_ends_with(tmp_path: Path) -> None:
    with fleet(tmp_path, "plain.py", "0.2", "4", **elastic(tmp_path, width=2)) as pods:
        started = [pods.pod(0), pods.pod(1)]
        assert [pod.wait() for pod in started] == [4, 4], pods.tails()
    assert re.match(r"worker [01] ended with 4\n", pods.last_words(0)), "whoever was the first"


def test_a_pod_works_alone_without_an_operator(tmp_path: Path) -> None:
    with fleet(tmp_path, "plain.py") as pods:
        pod = pods.pod(0, WEFT_REPORT_URL="", WEFT_WIDTH="1")
        assert pod.wait() == 0, pods.tails()
    assert len(printed(pod)) == 1


def test_a_follower_that_is_stopped_before_it_has_met_its_head_leaves(tmp_path: Path) -> None:
    with fleet(tmp_path, "plain.py") as pods:
        follower = pods.pod(1)
        until(lambda: pods.operator.tokens, "the follower to ask for its head", state=pods.tails)
        follower.signal(signal.SIGTERM)
        assert follower.wait() == DRAINED, pods.tails()
    assert set(pods.operator.tokens) == {"Bearer a-token"}


def test_one_model_is_held_by_two_pods(tmp_path: Path) -> None:
    """FSDP2 over pods: each pod writes the part that it holds, and any pod loads them."""
    given = {**elastic(tmp_path, width=2, least=2), "WEFT_SHARD": "2"}
    with fleet(tmp_path, "mlp.py", *SHARDED, *PAUSE, **given) as pods:
        started = [pods.pod(0), pods.pod(1)]
        started[0].steady(2)
        pods.reached(5)
        started[0].signal(signal.SIGTERM)
        assert [pod.wait() for pod in started] == [DRAINED, DRAINED], pods.tails()
    before = pods.newest_step
    with fleet(tmp_path / "again", "mlp.py", *SHARDED, **given) as second:
        started = [second.pod(0, epoch=2), second.pod(1, epoch=2)]
        assert [pod.wait() for pod in started] == [0, 0], second.tails()
    rest = list(range(before + 1, TOTAL))
    assert applied(second.lines()) == {"0": rest, "1": rest}
    expected = undisturbed("mlp.py", *SHARDED)["loss"]
    assert [end["loss"] for end in finals(second.lines())] == [
        pytest.approx(expected, abs=1e-3)
    ] * 2
