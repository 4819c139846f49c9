"""Staying with a job: `wait` and `logs`, and the status that they leave with."""

import asyncio

import pytest

from tests.cli.called import Weft
from tests.cli.fake_cluster import JOBS, PODS, FakeApi
from tests.cli.objects import Thing, a_job, a_running_job, a_waiting_job, a_worker
from weft.kube.client.errors import ApiError, Forbidden, Invalid, Unavailable


def ended(state: str, version: int = 200, **more: str) -> tuple[str, Thing]:
    thing = a_running_job(version=version)
    thing["status"] |= {"state": state, **more}
    return "MODIFIED", thing


@pytest.mark.parametrize(
    ("change", "status", "word"),
    [
        (ended("Succeeded"), 0, "Succeeded"),
        (ended("Failed"), 1, "Failed"),
        (ended("Cancelled"), 3, "Cancelled"),
        (("DELETED", a_running_job(version=200)), 3, "Deleted"),
    ],
)
def test_wait_leaves_as_the_job_ends(
    weft: Weft, cluster: FakeApi, change: tuple[str, Thing], status: int, word: str
) -> None:
    cluster.changes = [change]
    called = weft("wait", "llama-sft")
    assert called.status == status
    assert called.out == f"research/llama-sft {word}\n"
    assert called.err == "Running\n"


def test_wait_for_running(weft: Weft, cluster: FakeApi) -> None:
    assert weft("wait", "llama-sft", "--for", "running").status == 0
    assert weft("wait", "vit-l", "--for", "running", "-o", "json").json == {
        "schema": "weft-waited/1",
        "job": "research/vit-l",
        "state": "Failed",
        "status": 1,
    }


def test_wait_tells_a_new_reason_once(weft: Weft, cluster: FakeApi) -> None:
    again = a_waiting_job(version=101)
    other = a_waiting_job(version=102)
    other["status"] |= {"reason": "Quota.Limit", "message": "Queue full."}
    gone = a_waiting_job(version=103)
    cluster.changes = [("MODIFIED", again), ("MODIFIED", other), ("DELETED", gone)]
    called = weft("wait", "bert-ft")
    assert called.status == 3
    assert [line.partition(":")[2].strip()[:5] for line in called.err.splitlines()] == [
        "29 of",
        "Queue",
    ]


@pytest.mark.parametrize("timeout", ["1", "1s"])
def test_wait_gives_up(
    weft: Weft, cluster: FakeApi, monkeypatch: pytest.MonkeyPatch, timeout: str
) -> None:
    real = asyncio.timeout
    monkeypatch.setattr("asyncio.timeout", lambda seconds: real(seconds / 20))
    called = weft("wait", "bert-ft", "--timeout", timeout)
    assert called.status == 4
    assert "time is up: research/bert-ft is Queued" in called.err


def test_wait_refuses_what_is_no_time(weft: Weft, cluster: FakeApi) -> None:
    called = weft("wait", "bert-ft", "--timeout", "soon")
    assert called.status == 2
    assert "--timeout" in called.err


def test_wait_can_be_left(weft: Weft, cluster: FakeApi) -> None:
    cluster.changes = [("INTERRUPT", {})]
    called = weft("wait", "bert-ft")
    assert called.status == 130
    assert "detached: the job goes on; weft wait bert-ft waits again" in called.err


@pytest.mark.parametrize("command", ["show", "why", "wait", "logs", "cancel"])
def test_a_missing_job_is_an_error_at_once(weft: Weft, cluster: FakeApi, command: str) -> None:
    called = weft(command, "lama-sft")
    assert called.status == 2
    assert called.err == (
        "error: no job 'lama-sft' in namespace 'research'\nhint: did you mean llama-sft?\n"
    )


def test_a_missing_job_among_none_or_others(weft: Weft, cluster: FakeApi) -> None:
    assert "there are 3 jobs, such as vit-l" in weft("show", "zzz").err
    assert "there are no jobs" in weft("show", "zzz", "-n", "empty").err
    assert "'a/b/c' is no job" in weft("show", "a/b/c").err
    for command in ("why", "show", "logs", "wait", "cancel"):
        called = weft(command, "")
        assert called.status == 2
        assert "'' is no job" in called.err


def test_logs_of_the_first_worker(weft: Weft, cluster: FakeApi) -> None:
    called = weft("logs", "llama-sft")
    assert called.status == 0
    assert called.out == "step 1\nstep 2\n\x1b[31mstep 3\x1b[0m\n"
    assert weft("logs", "llama-sft", "--tail", "5").status == 0
    assert cluster.asked[-1][1] == {"container": "worker", "tailLines": "5"}


def test_logs_on_a_terminal_do_not_steer_it(
    weft: Weft, cluster: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.logs["llama-sft-3-0"] = [b"10%\r20%\r30%\r\n\x1b]0;title\x07\x1b[31mred\x1b[0m \xff\n"]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert weft("logs", "llama-sft").out == "30%\nred �\n"


def test_logs_of_all_workers_carry_their_rank(weft: Weft, cluster: FakeApi) -> None:
    cluster.things[PODS] = [a_worker("llama-sft"), a_worker("llama-sft", rank=1)]
    cluster.logs["llama-sft-3-1"] = [b"hello\n"]
    assert weft("logs", "llama-sft", "--all").out.splitlines()[-2:] == [
        "[0] \x1b[31mstep 3\x1b[0m",
        "[1] hello",
    ]
    assert weft("logs", "llama-sft", "--rank", "1").out == "hello\n"
    assert weft("logs", "llama-sft", "--rank", "1", "--all").status == 2


def test_logs_of_a_worker_that_has_not_started(weft: Weft, cluster: FakeApi) -> None:
    called = weft("logs", "llama-sft", "--rank", "1")
    assert "rank 1 has not started: ImagePullBackOff" in called.err


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ("bert-ft", "'bert-ft' has no workers: it is Queued"),
        ("vit-l", "the pods of 'vit-l' are gone"),
    ],
)
def test_logs_that_are_not_there(weft: Weft, cluster: FakeApi, job: str, message: str) -> None:
    called = weft("logs", job)
    assert called.status == 2
    assert message in called.err
    assert "has no such worker" in weft("logs", "llama-sft", "--rank", "7").err


def stamped(*lines: str) -> list[bytes | ApiError]:
    return [f"2026-01-01T08:00:0{n}.000000000Z {line}\n".encode() for n, line in enumerate(lines)]


def test_followed_logs_end_with_the_job(
    weft: Weft, cluster: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.kube.reading.pod_logs.AGAIN_SECONDS", 0.0)
    over = {"terminated": {"exitCode": 0}}
    cluster.things[PODS] = [
        a_worker("llama-sft", state=over, phase="Succeeded"),
        a_worker("llama-sft", state=over, epoch=2, phase="Failed"),
    ]
    cluster.logs["llama-sft-3-0"] = stamped("one", "two")
    cluster.changes = [ended("Succeeded")]
    called = weft("logs", "-f", "llama-sft")
    assert called.status == 0
    assert called.out == "one\ntwo\n"
    assert "llama-sft Succeeded" in called.err


def test_a_log_that_breaks_off_is_taken_up_where_it_broke(
    weft: Weft, cluster: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.kube.reading.pod_logs.AGAIN_SECONDS", 0.0)
    over = {"terminated": {"exitCode": 0}}
    cluster.things[PODS] = [a_worker("llama-sft", state=over, phase="Succeeded")]
    cluster.logs["llama-sft-3-0"] = [
        Invalid("waiting to start"),
        *stamped("one", "two"),
        Unavailable("broken"),
        *stamped("one", "two", "three"),
    ]
    cluster.changes = [ended("Failed")]
    called = weft("logs", "-f", "llama-sft", "--tail", "9")
    assert called.status == 1
    assert called.out == "one\ntwo\nthree\n"
    asked = [params for path, params in cluster.asked if path.endswith("/log")]
    assert [params.get("tailLines") for params in asked] == ["9", "9", None]
    assert asked[-1]["sinceTime"] == "2026-01-01T08:00:01.000000000Z"


def test_following_goes_on_in_the_pods_of_the_next_epoch(
    weft: Weft, cluster: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.kube.reading.pod_logs.AGAIN_SECONDS", 0.0)
    over = {"terminated": {"exitCode": 0}}
    cluster.things[JOBS][1]["status"] |= {"state": "Succeeded"}
    cluster.things[PODS] = [
        a_worker("llama-sft", state=over, epoch=4, node="node-3", version=12),
        a_worker("llama-sft", state=over, epoch=3, version=11),
    ]
    cluster.logs = {"llama-sft-3-0": stamped("old"), "llama-sft-4-0": stamped("new")}
    called = weft("logs", "-f", "llama-sft")
    assert called.status == 0
    assert sorted(called.out.splitlines()) == ["new", "old"]
    assert "rank 0 was placed anew: epoch" in called.err
    only = weft("logs", "-f", "llama-sft", "--epoch", "3")
    assert (only.status, only.out) == (0, "old\n")


def test_an_epoch_that_is_past_has_an_end(weft: Weft, cluster: FakeApi) -> None:
    assert weft("logs", "-f", "llama-sft", "--epoch", "1").status == 0


def test_followed_logs_of_a_job_that_has_failed(weft: Weft, cluster: FakeApi) -> None:
    called = weft("logs", "-f", "vit-l")
    assert called.status == 1
    assert "vit-l Failed: Rank 0 ended with status 1" in called.err


def test_followed_logs_of_a_job_that_is_deleted(weft: Weft, cluster: FakeApi) -> None:
    cluster.things[JOBS] = [a_job("short", version=4)]
    cluster.changes = [("DELETED", a_job("short", version=101))]
    called = weft("logs", "-f", "short")
    assert called.status == 3
    assert "short was deleted" in called.err


def test_followed_logs_can_be_left(weft: Weft, cluster: FakeApi) -> None:
    cluster.changes = [("INTERRUPT", {})]
    called = weft("logs", "-f", "bert-ft")
    assert called.status == 130
    assert "weft logs -f bert-ft looks again" in called.err


def test_logs_that_may_not_be_read_fail_at_once(weft: Weft, cluster: FakeApi) -> None:
    cluster.forbidden = ("pods",)
    assert weft("logs", "-f", "llama-sft").status == 5
    cluster.forbidden = ("log",)
    cluster.logs["llama-sft-3-0"] = [Forbidden("no logs for you")]
    assert weft("logs", "-f", "llama-sft").status == 5
