"""A job that is told to go goes soon, at a boundary, with its state; and it comes back with it."""

import signal
from pathlib import Path

import pytest

from tests.train.alone import undisturbed
from tests.train.driving import Driven, driven, leftovers, processes_of
from tests.train.lines import applied, check_each_once, finals
from tests.waiting import until
from weft.agent.checkpoint.vault import Vault

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

TOTAL = 60
JOB = ("mlp.py", "--total", str(TOTAL), "--level", "bitwise")
PAUSE = ("--pause", "0.05")
DRAINED = 143


def kept(folder: Path) -> tuple[str, ...]:
    return ("--checkpoints", str(folder / "kept"))


def newest(folder: Path) -> int:
    """The step of the newest sound checkpoint."""
    checkpoint = Vault(folder / "kept", "job", 99).newest().checkpoint
    assert checkpoint is not None
    return checkpoint.step


def resumed(folder: Path, first: Driven, *, width: int) -> None:
    """A second start goes on with the step after the last one and ends as if nothing had been."""
    before = first.newest_step
    assert newest(folder) == before
    agent = ("-n", str(width), "--incarnation", "2", *kept(folder))
    with driven(folder / "again", *JOB, agent=agent) as second:
        assert second.wait() == 0, second.logs()
    for steps in applied(second.lines()).values():
        assert steps == list(range(before + 1, TOTAL))
    expected = undisturbed(*JOB)["digest"]
    assert {end["digest"] for end in finals(second.lines())} == {expected}
    lines = [{**line, "epoch": line["epoch"] + 1000} for line in second.lines() if "epoch" in line]
    check_each_once([*first.lines(), *lines], total=TOTAL)


def test_sigterm_drains_and_a_second_start_loses_no_step(tmp_path: Path) -> None:
    with driven(tmp_path, *JOB, *PAUSE, agent=("-n", "2", *kept(tmp_path))) as job:
        job.reached(8)
        job.signal(signal.SIGTERM)
        assert job.wait() == DRAINED, job.logs()
    assert {event["code"] for event in job.named("exited")} == {DRAINED}
    resumed(tmp_path, job, width=1)


def test_sigterm_while_a_newcomer_warms_up(tmp_path: Path) -> None:
    with driven(tmp_path, *JOB, *PAUSE, agent=("-n", "1", *kept(tmp_path))) as job:
        job.reached(3)
        job.order("resize 2")
        job.pid(1)
        job.signal(signal.SIGTERM)
        assert job.wait() == DRAINED, job.logs()
    resumed(tmp_path, job, width=1)


@pytest.mark.parametrize("phase", ["building", "armed"])
def test_sigterm_while_the_switch_is_under_way(tmp_path: Path, phase: str) -> None:
    options = (*JOB[:2], "2000", *JOB[3:], *PAUSE)
    with driven(tmp_path, *options, agent=("-n", "1", *kept(tmp_path))) as job:
        job.reached(3)
        job.order("resize 2")
        job.until(lambda event: event["event"] == phase)
        job.signal(signal.SIGTERM)
        assert job.wait() == DRAINED, job.logs()
    assert newest(tmp_path) == job.newest_step
    check_each_once(job.lines(), total=job.newest_step + 1)


def test_sigterm_to_one_worker_drains_all(tmp_path: Path) -> None:
    with driven(tmp_path, *JOB, *PAUSE, agent=("-n", "2", *kept(tmp_path))) as job:
        job.reached(8)
        job.signal(signal.SIGTERM, worker=1)
        assert job.wait() == DRAINED, job.logs()
    resumed(tmp_path, job, width=2)


def test_a_second_sigterm_does_not_wait_for_the_boundary(tmp_path: Path) -> None:
    options = (*JOB, *PAUSE, "--fault", "hang")
    with driven(tmp_path, *options, agent=("-n", "2", *kept(tmp_path))) as job:
        job.reached(3)
        job.order("save")
        job.reached(9)
        job.signal(signal.SIGTERM)
        job.until(lambda event: event["event"] == "draining")
        assert job.status()["members"] == [0, 1], "it left without a boundary"
        job.signal(signal.SIGTERM)
        assert job.wait() == DRAINED, job.logs()
    assert newest(tmp_path) == job.named("saved")[0]["step"]


def test_a_drain_does_not_wait_for_a_boundary_beyond_the_grace(tmp_path: Path) -> None:
    options = (*JOB, *PAUSE, "--fault", "hang")
    with driven(tmp_path, *options, agent=("-n", "2", "--grace", "2", *kept(tmp_path))) as job:
        job.reached(3)
        job.order("save")
        job.reached(9)
        job.signal(signal.SIGTERM)
        assert job.wait() == DRAINED, job.logs()
    assert newest(tmp_path) == job.named("saved")[0]["step"]


def test_sigterm_before_anybody_is_ready(tmp_path: Path) -> None:
    with driven(tmp_path, *JOB, agent=("-n", "2", *kept(tmp_path))) as job:
        job.pid(1)
        job.signal(signal.SIGTERM)
        assert job.wait() == DRAINED, job.logs()


def test_an_error_of_the_user_ends_the_job_with_its_code(tmp_path: Path) -> None:
    with driven(tmp_path, *JOB, *PAUSE, "--fault", "fail", agent=("-n", "2")) as job:
        assert job.wait() == 3, job.logs()
    assert job.named("over")[0]["outcome"] == "user error"


def test_a_plain_script_finds_the_variables_of_torchrun_and_kubeflow(tmp_path: Path) -> None:
    with driven(tmp_path, "plain.py", agent=("-n", "2")) as job:
        assert job.wait() == 0, job.logs()
    told = [(tmp_path / "run" / "logs" / f"worker-{n}.log").read_text() for n in (0, 1)]
    for rank, text in enumerate(told):
        assert f"'RANK': '{rank}'" in text
        assert f"'LOCAL_RANK': '{rank}'" in text
        assert "'WORLD_SIZE': '2'" in text
        assert "'PET_NPROC_PER_NODE': '2'" in text
        assert "'PET_NNODES': '1'" in text


@pytest.mark.parametrize(("code", "outcome"), [(0, "finished"), (4, "user error")])
def test_a_plain_script_ends_with_its_own_code(tmp_path: Path, code: int, outcome: str) -> None:
    with driven(tmp_path, "plain.py", "0.2", str(code), agent=("-n", "2")) as job:
        assert job.wait() == code, job.logs()
    assert job.named("over")[0]["outcome"] == outcome


def test_a_plain_script_is_started_anew_at_another_width(tmp_path: Path) -> None:
    with driven(tmp_path, "plain.py", "3", agent=("-n", "2")) as job:
        job.pid(1)
        job.order("resize 3")
        job.pid(4)
        assert job.wait() == 0, job.logs()
    codes = {event["worker"]: event["code"] for event in job.named("exited")}
    assert codes == {0: -signal.SIGTERM, 1: -signal.SIGTERM, 2: 0, 3: 0, 4: 0}
    assert "'WORLD_SIZE': '3'" in (tmp_path / "run" / "logs" / "worker-4.log").read_text()


def test_a_plain_script_is_ended_by_sigterm(tmp_path: Path) -> None:
    with driven(tmp_path, "plain.py", "60", agent=("-n", "2")) as job:
        job.pid(1)
        job.signal(signal.SIGTERM)
        assert job.wait() == DRAINED, job.logs()


def test_workers_end_when_their_agent_has_died_and_the_next_agent_clears_up(tmp_path: Path) -> None:
    agent = ("-n", "2", *kept(tmp_path))
    with driven(tmp_path, *JOB, *PAUSE, agent=agent) as job:
        job.reached(3)
        job.order("save")
        job.until(lambda event: event["event"] == "saved")
        workers = {job.pid(0), job.pid(1)}
        job.signal(signal.SIGKILL)
        until(lambda: not workers & set(processes_of(tmp_path)), "the orphans to end")
    assert leftovers(tmp_path), "a killed agent cannot clear up"
    with driven(tmp_path, *JOB, agent=("--incarnation", "2", *agent)) as second:
        assert second.wait() == 0, second.logs()
    expected = undisturbed(*JOB)["digest"]
    assert {end["digest"] for end in finals(second.lines())} == {expected}


def test_a_second_agent_is_kept_out_of_the_folder(tmp_path: Path) -> None:
    with driven(tmp_path, "plain.py", "60", agent=("-n", "1")) as job:
        job.pid(0)
        with driven(tmp_path, "plain.py", agent=("-n", "1")) as second:
            assert second.wait() not in (0, DRAINED)
        assert job.status()["phase"] == "gathering"
        job.signal(signal.SIGTERM)
        assert job.wait() == DRAINED
