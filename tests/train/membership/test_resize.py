"""Real processes grow and shrink while they train, and lose nothing."""

import signal
from pathlib import Path
from random import Random

import pytest

from tests.train.alone import undisturbed
from tests.train.driving import Driven, driven
from tests.train.lines import applied, by_step, check_each_once, finals

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

EVERYTHING = ("--level", "bitwise", "--norm", "--dropout", "0.1", "--micro", "2", "--clip", "0.5")
LARGE = ("--hidden", "256")  # enough to be sent in pieces of its own
# 4.8 MB of state in 6 s, which is three times SHORT_LIMIT.
SLOW = ("--hidden", "256", "--layers", "6", "--rate", "800000")
SHORT_LIMIT = ("--hang", "2")
TOTAL = 250
STEPS = ("--total", str(TOTAL), "--pause", "0.1")


def finish(job: Driven, total: int = TOTAL) -> None:
    """No more pauses: to the end, where every sample has been used once per pass."""
    (job.folder / "hurry").touch()
    assert job.wait() == 0, job.logs()
    check_each_once(job.lines(), total=total)


def test_a_job_grows_and_shrinks_without_losing_a_sample(tmp_path: Path) -> None:
    with driven(tmp_path, "mlp.py", *STEPS, agent=("-n", "1")) as job:
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
    width, total = 1, 500
    steps = ("--total", str(total))
    with driven(tmp_path, "mlp.py", *steps, *options, *STEPS[2:], agent=("-n", "1")) as job:
        epoch = job.steady(1)["epoch"]
        for _ in range(10):
            width = draw.choice([other for other in (1, 2, 3) if other != width])
            job.order(f"resize {width}")
            epoch = job.steady(width, after=epoch)["epoch"]
        assert job.status()["resizes"] == 10
        finish(job, total)
    expected = undisturbed("mlp.py", *steps, *options)
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
    options = ("--level", level, "--norm", "--digest", "--hidden", "256", "--late", "0.3")
    with driven(tmp_path, "mlp.py", *STEPS, *options, agent=("-n", "1")) as job:
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
    with driven(tmp_path, "mlp.py", *STEPS, agent=("-n", "1")) as job:
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


def test_newcomers_killed_on_their_way_are_replaced(tmp_path: Path) -> None:
    """Each dies a little later than the one before; the first worker never stops training."""
    points = ("warmed", "ready", "meeting", "address-told", "receiving")
    variables = {f"CRASH_{number}": point for number, point in enumerate(points, start=2)}
    with driven(tmp_path, "mlp.py", *STEPS, *LARGE, agent=("-n", "1"), **variables) as job:
        job.reached(3)
        job.order("resize 2")
        job.signal(signal.SIGKILL, worker=1)
        last = len(points) + 2
        job.until(lambda e: e["event"] == "committed" and e["worker"] == last, seconds=150)
        job.steady(2)
        assert job.status()["members"] == [0, last]
        finish(job)
    dead = [event["worker"] for event in job.named("exited") if event["code"] == -signal.SIGKILL]
    assert dead == list(range(1, last))
    assert applied(job.lines())["0"] == list(range(TOTAL))
    assert set(applied(job.lines())) == {"0", str(last)}


def test_one_of_two_newcomers_is_killed_and_the_other_joins(tmp_path: Path) -> None:
    """In mid-transfer: who waits for state that will not come is freed at once, not by a limit."""
    options = (*STEPS, *LARGE, "--layers", "4", "--rate", "2000000")
    crash = {"CRASH_2": "receiving#6"}
    with driven(tmp_path, "mlp.py", *options, agent=("-n", "1"), **crash) as job:
        job.reached(3)
        job.order("resize 3")
        halted = job.until(lambda event: event["event"] == "halted")
        job.steady(3)
        assert job.status()["members"] == [0, 1, 3]
        finish(job)
    assert halted["why"], "nobody would know why"
    assert applied(job.lines())["0"] == list(range(TOTAL))


def test_a_handover_that_fails_is_told_at_once(tmp_path: Path) -> None:
    """Nobody died: one end has failed, and the other may have half of a message."""
    options = (*STEPS, *LARGE, "--tear", "3")
    with driven(tmp_path, "mlp.py", *options, agent=("-n", "1")) as job:
        job.reached(3)
        job.order("resize 2")
        halted = job.until(lambda event: event["event"] == "halted")
        job.steady(2)
        finish(job)
    told = ("cable", "hand over", "closed by peer")  # by whichever end was heard first
    assert any(words in halted["why"] for words in told)
    assert applied(job.lines())["0"] == list(range(TOTAL))


def test_a_job_whose_sums_come_as_from_gpus(tmp_path: Path) -> None:
    """Grown, then one is killed in the middle of a sum: the branch for NCCL, without a GPU."""
    options = (*STEPS, *LARGE, "--norm", "--digest", "--dawdle")
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


def test_a_job_that_ends_while_a_newcomer_is_on_its_way(tmp_path: Path) -> None:
    """Nobody waits for the rest of a state that nobody needs any more."""
    options = ("--total", "40", "--pause", "0.1", *SLOW[:-1], "200000")
    with driven(tmp_path, "mlp.py", *options, agent=("-n", "1", "--hang", "5")) as job:
        job.reached(3)
        job.order("resize 2")
        job.until(lambda event: event["event"] == "armed")
        assert job.wait() == 0, job.logs()
    assert applied(job.lines())["0"] == list(range(40))


def test_a_transfer_of_three_times_the_limit_beside_the_training(tmp_path: Path) -> None:
    """Nobody hangs who moves bytes, and those who have the state train on meanwhile."""
    options = ("--total", "400", "--pause", "0.05", "--digest", "--norm", *SLOW)
    with driven(tmp_path, "mlp.py", *options, agent=("-n", "1", *SHORT_LIMIT)) as job:
        job.reached(3)
        job.order("resize 2")
        job.until(lambda event: event["event"] == "armed")
        before = job.newest_step
        grown = job.steady(2)
        meanwhile = job.newest_step - before
        job.reached(job.newest_step + 5)
        (job.folder / "hurry").touch()
        assert job.wait() == 0, job.logs()
    assert grown["epoch"] == 2, "it was tried more than once"
    assert meanwhile >= 10
    assert not job.named("halted"), "the wait for bytes was taken for a hang"
    check_each_once(job.lines(), total=400)
    agreed = [digests for digests in by_step(job.lines()).values() if len(digests) == 2]
    assert len(agreed) >= 5
    assert all(len(set(digests)) == 1 for digests in agreed)


def test_a_newcomer_goes_on_though_the_step_in_which_it_came_is_repeated(tmp_path: Path) -> None:
    """It has the state already when one of its donors dies, and is as good as the other donor."""
    options = (*STEPS, *LARGE, "--norm", "--digest")
    crash = "handed-over#2"  # the first time was at the start, when it received the state itself
    with driven(tmp_path, "mlp.py", *options, agent=("-n", "2"), CRASH_1=crash) as job:
        job.reached(3)
        job.order("resize 3")
        repaired = job.steady(2, after=2)["epoch"]
        job.signal(signal.SIGTERM)
        assert job.wait() == 143, job.logs()
    assert repaired == 3
    assert {e["worker"] for e in job.named("committed") if e["epoch"] == repaired} == {0, 2}
    for digests in by_step(job.lines()).values():
        assert len(set(digests)) == 1, "members of one epoch differ"


@pytest.mark.parametrize(
    ("victim", "point"), [(0, "before-switch"), (1, "switched"), (0, "sending#4"), (1, "sending")]
)
def test_a_member_killed_over_a_switch(tmp_path: Path, victim: int, point: str) -> None:
    """Two give to a third and one of the two dies over it: the other goes on, the target holds."""
    variables = {f"CRASH_{victim}": point}
    with driven(tmp_path, "mlp.py", *STEPS, *LARGE, agent=("-n", "2"), **variables) as job:
        job.reached(3)
        job.order("resize 3")
        job.until(lambda event: event["event"] == "exited" and event["worker"] == victim)
        job.steady(3)
        finish(job)
    assert applied(job.lines())[str(1 - victim)] == list(range(TOTAL))


def test_one_that_was_to_leave_is_killed_over_it(tmp_path: Path) -> None:
    """Whoever is left goes on alone, and can be resized again."""
    with driven(tmp_path, "mlp.py", *STEPS, agent=("-n", "2"), CRASH_1="before-switch") as job:
        job.reached(3)
        job.order("resize 1")
        job.until(lambda event: event["event"] == "exited" and event["worker"] == 1)
        job.reached(job.newest_step + 3)
        job.order("resize 2")
        job.steady(2, after=job.status()["epoch"])
        finish(job)
    assert applied(job.lines())["0"] == list(range(TOTAL))


def test_one_that_was_to_stay_alone_is_killed_over_it(tmp_path: Path) -> None:
    """The others have left at that very boundary, so the newest snapshot is all there is."""
    with driven(tmp_path, "mlp.py", *STEPS, agent=("-n", "2"), CRASH_0="before-switch") as job:
        job.reached(3)
        job.order("save")
        saved = job.until(lambda event: event["event"] == "saved")["step"]
        job.order("resize 1")
        job.steady(1)
        assert job.status()["restarts"] == 1
        (job.folder / "hurry").touch()
        assert job.wait() == 0, job.logs()
    assert applied(job.lines())["2"] == list(range(saved + 1, TOTAL))
    expected = undisturbed("mlp.py", "--total", str(TOTAL))["loss"]
    assert [end["loss"] for end in finals(job.lines())] == [pytest.approx(expected, abs=1e-3)]


def test_nothing_grows_with_the_number_of_epochs(tmp_path: Path) -> None:
    """Groups, their connections and threads go with their epoch."""
    with driven(tmp_path, "mlp.py", *STEPS, agent=("-n", "2")) as job:
        job.steady(2)
        job.order("resize 3")
        epoch = job.steady(3)["epoch"]
        job.reached(job.newest_step + 3)
        before = resources(job.pid(0))
        for width in (2, 3):
            job.order(f"resize {width}")
            epoch = job.steady(width, after=epoch)["epoch"]
        job.reached(job.newest_step + 3)
        after = resources(job.pid(0))
        finish(job)
    assert after == before


def resources(pid: int) -> tuple[int, ...]:
    """Open files, and threads."""
    return tuple(len(list(Path(f"/proc/{pid}/{kind}").iterdir())) for kind in ("fd", "task"))


def test_a_compiled_model_is_compiled_for_two_sizes_at_most_whatever_the_width(
    tmp_path: Path,
) -> None:
    """A step of 16 in fives: 5, 5, 5 and 1; each process sees these and no others."""
    sizes = ("--compile", "--fixed", "--micro", "5")
    with driven(tmp_path, "mlp.py", *STEPS, *sizes, agent=("-n", "1")) as job:
        job.reached(3)
        job.order("resize 3")
        grown = job.steady(3)
        job.reached(job.newest_step + 3)
        job.order("resize 2")
        job.steady(2, after=grown["epoch"])
        job.reached(job.newest_step + 3)
        finish(job)
    ends = finals(job.lines())
    assert len(ends) == 2
    assert all(1 <= end["compiled"] <= 2 for end in ends), [end["compiled"] for end in ends]
