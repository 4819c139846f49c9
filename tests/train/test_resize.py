"""Real processes grow and shrink while they train, and lose nothing."""

import signal
from pathlib import Path
from random import Random

import pytest

from tests.train.alone import undisturbed
from tests.train.driving import Driven, driven
from tests.train.lines import Line, applied, check_each_once, finals

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

PAUSE = ("--pause", "0.05")
EVERYTHING = ("--level", "bitwise", "--norm", "--dropout", "0.1", "--micro", "2", "--clip", "0.5")
TOTAL = 1500
STEPS = ("--total", str(TOTAL))


def finish(job: Driven) -> None:
    """No more pauses: to the end, where every sample has been used once per pass."""
    (job.folder / "hurry").touch()
    assert job.wait() == 0, job.logs()
    check_each_once(job.lines(), total=TOTAL)


def test_a_job_grows_and_shrinks_without_losing_a_sample(tmp_path: Path) -> None:
    with driven(tmp_path, "mlp.py", *STEPS, *PAUSE, agent=("-n", "1")) as job:
        job.reached(5)
        job.order("resize 2")
        grown = job.steady(2)
        job.reached(job.newest_step + 5)
        job.order("resize 1")
        job.steady(1, after=grown["epoch"])
        finish(job)


@pytest.mark.parametrize("options", [(), EVERYTHING], ids=["same_math", "bitwise"])
def test_ten_random_resizes_come_to_what_an_undisturbed_run_comes_to(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    draw = Random(7)
    width = 1
    with driven(tmp_path, "mlp.py", *STEPS, *options, *PAUSE, agent=("-n", "1")) as job:
        epoch = job.steady(1)["epoch"]
        for _ in range(10):
            width = draw.choice([other for other in (1, 2, 3) if other != width])
            job.order(f"resize {width}")
            epoch = job.steady(width, after=epoch)["epoch"]
        assert job.status()["resizes"] == 10
        finish(job)
    expected = undisturbed("mlp.py", *STEPS, *options)
    for end in finals(job.lines()):
        assert end["loss"] == pytest.approx(expected["loss"], abs=1e-3)
        assert not options or end["digest"] == expected["digest"]


def test_two_workers_come_to_the_same_bits_as_one(tmp_path: Path) -> None:
    with driven(tmp_path, "mlp.py", "--total", "60", *EVERYTHING, agent=("-n", "2")) as job:
        assert job.wait() == 0, job.logs()
    expected = undisturbed("mlp.py", "--total", "60", *EVERYTHING)["digest"]
    assert [end["digest"] for end in finals(job.lines())] == [expected, expected]


@pytest.mark.parametrize("level", ["same_math", "bitwise"])
def test_newcomers_have_all_state_from_their_first_step_on(tmp_path: Path, level: str) -> None:
    """Weights, moments, the schedule and running means, compared by one hash after every step."""
    options = ("--level", level, "--norm", "--digest", "--hidden", "256")
    with driven(tmp_path, "mlp.py", *STEPS, *options, *PAUSE, agent=("-n", "1")) as job:
        job.reached(3)
        job.order("resize 3")
        job.steady(3)
        job.reached(job.newest_step + 5)
        job.signal(signal.SIGTERM)
        assert job.wait() == 143, job.logs()
    agreed = 0
    for digests in by_step(job.lines()).values():
        assert len(set(digests)) == 1, "members of one epoch differ"
        agreed += len(digests) == 3
    assert agreed >= 5


def by_step(lines: list[Line]) -> dict[int, list[str]]:
    """The digests of all workers after each step."""
    found: dict[int, list[str]] = {}
    for line in lines:
        if line.get("stepped"):
            found.setdefault(line["step"], []).append(line["digest"])
    return found


def test_three_targets_during_a_resize_are_one_more_resize(tmp_path: Path) -> None:
    with driven(tmp_path, "mlp.py", *STEPS, "--pause", "0.5", agent=("-n", "1")) as job:
        job.reached(1)
        job.order("resize 2")
        armed = job.until(lambda event: event["event"] == "armed")
        for width in (3, 1, 3):
            job.order(f"resize {width}")
        job.steady(3, after=armed["epoch"])
        assert job.status()["resizes"] == 2
        finish(job)


def test_a_newer_target_cancels_a_newcomer_that_warms_up(tmp_path: Path) -> None:
    with driven(tmp_path, "mlp.py", *STEPS, *PAUSE, agent=("-n", "1")) as job:
        job.reached(3)
        job.order("resize 2")
        job.pid(1)
        job.order("resize 1")
        job.until(lambda event: event["event"] == "exited" and event["worker"] == 1)
        status = job.status()
        assert (status["resizes"], status["members"], status["target"]) == (0, [0], 1)
        job.order("resize 2")
        job.steady(2)
        finish(job)
    assert applied(job.lines())["0"] == list(range(TOTAL))


def test_a_newcomer_killed_while_it_imports_is_replaced(tmp_path: Path) -> None:
    with driven(tmp_path, "mlp.py", *STEPS, *PAUSE, agent=("-n", "1")) as job:
        job.reached(3)
        job.order("resize 2")
        job.signal(signal.SIGKILL, worker=1)
        grown_by_the_next_attempt(job)


@pytest.mark.parametrize("point", ["warmed", "ready", "meeting", "address-told", "receiving"])
def test_a_newcomer_killed_on_its_way_is_replaced(tmp_path: Path, point: str) -> None:
    options = ("--hidden", "256")
    with driven(
        tmp_path, "mlp.py", *STEPS, *options, *PAUSE, agent=("-n", "1"), CRASH_1=point
    ) as job:
        job.reached(3)
        job.order("resize 2")
        grown_by_the_next_attempt(job)


def grown_by_the_next_attempt(job: Driven) -> None:
    """Worker 0 never stops, worker 1 dies, worker 2 joins."""
    steady = job.steady(2)
    assert job.status()["members"] == [0, 2]
    assert job.named("exited")[0]["worker"] == 1
    job.reached(job.newest_step + 3)
    finish(job)
    assert applied(job.lines())["0"] == list(range(TOTAL))
    assert "1" not in applied(job.lines())
    assert steady["epoch"] <= 4


@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("point", ["before-switch", "switched", "sending", "step-closed#20"])
def test_a_member_killed_over_a_switch(tmp_path: Path, point: str, victim: int) -> None:
    """Two give to a third and one of the two dies over it: the other goes on, the target holds."""
    options = ("--hidden", "256")
    variables = {f"CRASH_{victim}": point}
    with driven(
        tmp_path, "mlp.py", *STEPS, *options, *PAUSE, agent=("-n", "2"), **variables
    ) as job:
        job.reached(3)
        job.order("resize 3")
        job.until(lambda event: event["event"] == "exited" and event["worker"] == victim)
        job.steady(3)
        finish(job)
    assert applied(job.lines())[str(1 - victim)] == list(range(TOTAL))


@pytest.mark.parametrize(("victim", "point"), [(0, "before-switch"), (1, "before-switch")])
def test_one_killed_over_a_shrink(tmp_path: Path, victim: int, point: str) -> None:
    """Also when it is the one that was to leave: whoever is left goes on and can be resized."""
    variables = {f"CRASH_{victim}": point}
    with driven(tmp_path, "mlp.py", *STEPS, *PAUSE, agent=("-n", "2"), **variables) as job:
        job.reached(3)
        job.order("resize 1")
        job.until(lambda event: event["event"] == "exited" and event["worker"] == victim)
        job.reached(job.newest_step + 3)
        job.order("resize 2")
        job.steady(2, after=job.status()["epoch"])
        finish(job)
