"""Real jobs on the same GPUs: they take turns, and each lives and dies for itself."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.train.company import companions
from tests.train.company.companions import computing, hog, overlapping, serving, steps
from tests.train.driving import Driven, driven, processes_of
from tests.train.lines import Line
from tests.waiting import until

JOB = "turns.py"


@pytest.fixture
def meeting(tmp_path: Path) -> Path:
    folder = tmp_path / "company"
    folder.mkdir()
    return folder


def both_train(one: Driven, other: Driven, more: int = 5) -> None:
    """Until each has made some steps beside the other."""
    goals = [(job, job.newest_step + more) for job in (one, other)]
    for job, goal in goals:
        job.reached(goal)


@contextmanager
def two_in_turns(tmp_path: Path, meeting: Path) -> Iterator[tuple[Driven, Driven]]:
    """After some steps of each; behind this both have ended well."""
    company, done = ("--company", f"{meeting}:0"), tmp_path / "done"
    options = ("--total=100000", f"--until={done}")
    with (
        driven(tmp_path / "a", JOB, *options, agent=company) as a,
        driven(tmp_path / "b", JOB, *options, agent=company) as b,
    ):
        serving(meeting)
        both_train(a, b, 60)
        yield a, b
        done.touch()
        assert (a.wait(), b.wait()) == (0, 0)


def test_two_jobs_never_compute_at_the_same_time(tmp_path: Path, meeting: Path) -> None:
    with two_in_turns(tmp_path, meeting) as (a, b):
        pass
    asked = [[line for line in job.lines() if line["granted"]] for job in (a, b)]
    began = max(lines[3]["entered"][0][1] for lines in asked)
    ended = min(lines[-1]["entered"][-1][1] for lines in asked)
    spans = [computing(job.lines()) for job in (a, b)]
    one, other = ([span for span in found if began < span[0] < ended] for found in spans)
    assert min(len(one), len(other)) > 20
    assert overlapping(one, other) == 0
    assert sum(line["breached"] for job in (a, b) for line in job.lines()) == 0


def test_in_turns_a_job_tells_what_its_steps_take_without_the_waits(
    tmp_path: Path, meeting: Path
) -> None:
    with two_in_turns(tmp_path, meeting) as (a, _):
        a.until(lambda _: a.status()["profile_in_turns"] is not None)
        told = a.status()
    assert told["profile"] is None and told["speed"]["shared"]
    in_turns = told["profile_in_turns"]
    assert 0.0 < in_turns["gpu_seconds"] <= in_turns["step_seconds"]


def test_alone_nobody_asks_and_nobody_serves(tmp_path: Path) -> None:
    with driven(tmp_path / "a", JOB, "--total=20", "--move") as a:
        assert a.wait() == 0
    stages = {stage for line in a.lines() for stage, _ in line["entered"]}
    assert stages.isdisjoint({"token_wait", "h2d"})
    assert a.named("over")


def test_waits_and_copies_are_stages_of_a_step(tmp_path: Path, meeting: Path) -> None:
    company, done = ("--company", f"{meeting}:0"), tmp_path / "done"
    options = ("--total=100000", f"--until={done}", "--move")
    with driven(tmp_path / "a", JOB, *options, agent=company) as a:
        a.until(lambda e: e["event"] == "stages" and "token_wait" in e.get("exposed", ()))
        done.touch()
        assert a.wait() == 0
    last = a.lines()[-1]["entered"]
    order = [stage for stage, _ in last]
    assert order[order.index("token_wait") :][:4] == ["token_wait", "forward", "h2d", "forward"]
    (*_, report) = (e for e in a.named("stages") if "token_wait" in e.get("exposed", ()))
    assert report["turns"] > 0
    assert report["breaches"] == 0
    assert "h2d" in report["exposed"]


def test_company_comes_and_goes_without_a_stop(tmp_path: Path, meeting: Path) -> None:
    done = tmp_path / "done"
    with driven(tmp_path / "a", JOB, "--total=100000", f"--until={done}") as a:
        a.reached(5)
        a.order(f"accompany {meeting}:0")
        server = serving(meeting)
        a.until(lambda _: any(line["granted"] for line in a.lines()))
        assert a.status()["company"] == {"folder": str(meeting), "gpus": [0], "breaches": 0}
        a.order("alone")
        a.until(lambda e: e["event"] == "answer" and e.get("company", "") is None)
        goal = a.newest_step + 10
        a.reached(goal)
        assert server not in processes_of(a.folder)
        done.touch()
        assert a.wait() == 0
    lines = a.lines()
    assert steps(lines) == list(range(len(lines)))
    assert not any(line["granted"] for line in lines if line["step"] > goal)
    assert len(a.named("spawned")) == 1


def test_a_member_that_is_killed_holds_nobody_up(tmp_path: Path, meeting: Path) -> None:
    company, done = ("--company", f"{meeting}:0"), tmp_path / "done"
    options = ("--total=100000", f"--until={done}")
    with (
        driven(tmp_path / "a", JOB, *options, agent=company) as a,
        driven(tmp_path / "b", JOB, *options, agent=company) as b,
    ):
        both_train(a, b)
        b.signal(signal.SIGKILL, worker=0)
        a.reached(a.newest_step + 20)
        done.touch()
        assert (a.wait(), b.wait()) == (0, 0)
    lines = a.lines()
    assert steps(lines) == list(range(len(lines))), "none is lost, none is made twice"
    assert sum(line["breached"] for line in lines) == 0, "its turn ended with it, not by its term"


def test_the_server_may_die_and_another_serves(tmp_path: Path, meeting: Path) -> None:
    company, done = ("--company", f"{meeting}:0"), tmp_path / "done"
    options = ("--total=100000", f"--until={done}")
    with (
        driven(tmp_path / "a", JOB, *options, agent=company) as a,
        driven(tmp_path / "b", JOB, *options, agent=company) as b,
    ):
        both_train(a, b)
        server = serving(meeting)
        companions.kill(server)
        assert serving(meeting, but=server) != server
        at = time.monotonic()
        until(lambda: all(granted_since(job, at) for job in (a, b)), "leases of the other server")
        both_train(a, b, 10)
        done.touch()
        assert (a.wait(), b.wait()) == (0, 0)
    for job in (a, b):
        lines = job.lines()
        assert steps(lines) == list(range(len(lines)))


def granted_since(job: Driven, at_seconds: float) -> bool:
    return any(grant > at_seconds for line in job.lines() for grant in line["granted"])


def test_a_server_that_is_stopped_costs_a_moment(tmp_path: Path, meeting: Path) -> None:
    company, done = ("--company", f"{meeting}:0"), tmp_path / "done"
    options = ("--total=100000", f"--until={done}")
    with driven(tmp_path / "a", JOB, *options, agent=company) as a:
        server = serving(meeting)
        a.until(lambda _: any(line["granted"] for line in a.lines()))
        companions.kill(server, signal.SIGSTOP)
        try:
            a.reached(a.newest_step + 20)
        finally:
            companions.kill(server, signal.SIGCONT)
        done.touch()
        assert a.wait() == 0
    assert steps(a.lines()) == list(range(len(a.lines())))


def test_one_that_never_gives_back_is_passed(tmp_path: Path, meeting: Path) -> None:
    """Nor is the wait for it taken for a hang, though it is longer than a step may be."""
    company, done = ("--company", f"{meeting}:0", "--hang=2"), tmp_path / "done"
    options = ("--total=100000", f"--until={done}")
    with driven(tmp_path / "a", JOB, *options, agent=company) as a:
        serving(meeting)
        a.until(lambda _: any(line["granted"] for line in a.lines()))
        with hog(meeting):
            a.until(lambda _: any(line["breached"] for line in a.lines()))
            a.reached(a.newest_step + 20)
        done.touch()
        assert a.wait() == 0
    lines = a.lines()
    assert steps(lines) == list(range(len(lines)))
    assert sum(line["breached"] for line in lines) == 1, "nobody waits for it twice"
    assert len(a.named("spawned")) == 1


def test_gangs_have_their_turns_as_a_whole(tmp_path: Path, meeting: Path) -> None:
    company, done = ("--company", f"{meeting}:0,1", "--workers=2"), tmp_path / "done"
    options = ("--total=100000", f"--until={done}", "--compute=0.001")
    with (
        driven(tmp_path / "a", JOB, *options, agent=company) as a,
        driven(tmp_path / "b", JOB, *options, agent=company) as b,
    ):
        serving(meeting)
        both_train(a, b, 150)
        done.touch()
        assert (a.wait(), b.wait()) == (0, 0)
    for job in (a, b):
        lines = job.lines()
        assert sum(line["breached"] for line in lines) == 0
        by_step: dict[int, list[Line]] = {}
        for line in lines:
            by_step.setdefault(line["step"], []).append(line)
        whole = [pair for pair in by_step.values() if len(pair) == 2]
        turns = [pair for pair in whole if all(line["granted"] for line in pair)]
        assert len(turns) > 100
        for pair in turns:
            (grant,) = {line["granted"][-1] for line in pair}
            met = [at for line in pair for stage, at in line["entered"] if stage == "comm_exposed"]
            assert min(met) > grant, "a lease was waited for inside a collective"


def test_a_gang_that_loses_a_worker_goes_on(tmp_path: Path, meeting: Path) -> None:
    company = ("--company", f"{meeting}:0,1", "--workers=2")
    done = tmp_path / "done"
    options = ("--total=100000", f"--until={done}")
    with driven(tmp_path / "a", JOB, *options, agent=company) as a:
        serving(meeting)
        a.until(lambda _: any(line["granted"] for line in a.lines()))
        a.signal(signal.SIGKILL, worker=1)
        a.steady(1)
        a.steady(2)
        a.reached(a.newest_step + 20)
        done.touch()
        assert a.wait() == 0
    assert sum(line["breached"] for line in a.lines()) == 0
