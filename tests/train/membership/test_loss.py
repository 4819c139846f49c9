"""Workers die, stop or hang at any point of a step; the others go on and nothing is lost."""

import signal
from pathlib import Path

import pytest

from tests.train.alone import undisturbed
from tests.train.driving import Driven, driven
from tests.train.lines import applied, check_each_once, finals
from weft.train.crash_points import POINTS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

TOTAL = 40
STEPS = ("--total", str(TOTAL))
PAUSE = ("--pause", "0.02")
SURVIVOR = 0


def ended_as_undisturbed(job: Driven, survivors: tuple[int, ...]) -> None:
    """All steps once on every survivor, each sample once, and the loss of a quiet run."""
    lines = job.lines()
    check_each_once(lines, total=TOTAL)
    for worker in survivors:
        assert applied(lines)[str(worker)] == list(range(TOTAL))
    expected = undisturbed("mlp.py", *STEPS)["loss"]
    ends = finals(lines)
    assert {end["worker"] for end in ends} >= {str(worker) for worker in survivors}
    for end in ends:
        assert end["loss"] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("at", range(len(POINTS)), ids=POINTS)
def test_one_of_three_is_killed_and_then_one_of_two(tmp_path: Path, at: int) -> None:
    """At every point of a step for both widths: the second dies at another point than the first."""
    first, second = POINTS[at], POINTS[(at + 5) % len(POINTS)]
    variables = {"CRASH_2": f"{first}#10", "CRASH_1": f"{second}#24"}
    with driven(tmp_path, "mlp.py", *STEPS, *PAUSE, agent=("-n", "3"), **variables) as job:
        assert job.wait() == 0, job.logs()
    deaths = [(event["worker"], event["code"]) for event in job.named("exited")[:2]]
    assert deaths == [(2, -signal.SIGKILL), (1, -signal.SIGKILL)]
    ended_as_undisturbed(job, (SURVIVOR,))


def test_one_of_four_is_killed_and_those_who_do_not_talk_to_it_notice(tmp_path: Path) -> None:
    """In a ring of four the one opposite waits for a live peer; that one's closing frees it."""
    with driven(
        tmp_path, "mlp.py", *STEPS, *PAUSE, agent=("-n", "4"), CRASH_1="bucket-sent#12"
    ) as job:
        assert job.wait() == 0, job.logs()
    ended_as_undisturbed(job, (0, 2, 3))


def test_two_of_four_are_killed_one_after_the_other_within_a_step(tmp_path: Path) -> None:
    variables = {"CRASH_1": "vote-cast#12", "CRASH_2": "step-opened#13"}
    with driven(tmp_path, "mlp.py", *STEPS, *PAUSE, agent=("-n", "4"), **variables) as job:
        assert job.wait() == 0, job.logs()
    ended_as_undisturbed(job, (0, 3))


@pytest.mark.parametrize("point", ["meeting", "address-told"])
def test_one_of_three_is_killed_while_they_regroup(tmp_path: Path, point: str) -> None:
    """Nobody waits for the address of one who has died since, nor for an answer from there."""
    groups_per_epoch = 2
    variables = {"CRASH_1": "voted#12", "CRASH_2": f"{point}#{groups_per_epoch + 1}"}
    with driven(tmp_path, "mlp.py", *STEPS, *PAUSE, agent=("-n", "3"), **variables) as job:
        assert job.wait() == 0, job.logs()
    assert [event["worker"] for event in job.named("exited")][:2] == [1, 2]
    ended_as_undisturbed(job, (SURVIVOR,))


@pytest.mark.parametrize("point", ["snapshot-copied", "snapshot-sealed", "snapshot-taken"])
def test_the_one_that_saves_is_killed_over_it(tmp_path: Path, point: str) -> None:
    agent = ("-n", "2", "--checkpoints", str(tmp_path / "kept"))
    with driven(tmp_path, "mlp.py", *STEPS, *PAUSE, agent=agent, CRASH_0=point) as job:
        job.reached(5)
        job.order("save")
        assert job.wait() == 0, job.logs()
    assert job.named("exited")[0]["worker"] == 0
    ended_as_undisturbed(job, (1,))


def test_both_are_killed_before_anything_was_saved(tmp_path: Path) -> None:
    """The state before the first step is a state to begin again from."""
    variables = {"CRASH_0": "voted#5", "CRASH_1": "applied#5"}
    with driven(tmp_path, "mlp.py", *STEPS, *PAUSE, agent=("-n", "2"), **variables) as job:
        assert job.wait() == 0, job.logs()
    assert restarted(job) == [0]
    again_as_undisturbed(job)


@pytest.mark.parametrize("durable", [True, False], ids=["on disk", "in shared memory"])
def test_both_are_killed_after_a_snapshot(tmp_path: Path, durable: bool) -> None:
    variables = {"CRASH_0": "voted#30", "CRASH_1": "applied#30"}
    agent = ("-n", "2", *(("--checkpoints", str(tmp_path / "kept")) if durable else ()))
    with driven(tmp_path, "mlp.py", *STEPS, *PAUSE, agent=agent, **variables) as job:
        job.reached(5)
        job.order("save")
        assert job.wait() == 0, job.logs()
    saved = job.named("saved")[0]["step"]
    assert 5 <= saved < 30
    assert restarted(job) == [saved + 1]
    again_as_undisturbed(job)


def restarted(job: Driven) -> list[int]:
    """The steps at which crews that lost everything began again."""
    crews = [applied(job.lines(worker)) for worker in (2, 3)]
    return sorted({steps[0] for crew in crews for steps in crew.values()})


def again_as_undisturbed(job: Driven) -> None:
    """What the second crew did on top of the saved steps is what a quiet run does."""
    lines = job.lines()
    expected = undisturbed("mlp.py", *STEPS)["loss"]
    assert [end["loss"] for end in finals(lines)] == [pytest.approx(expected, abs=1e-3)] * 2
    second = [line for line in lines if line["worker"] in {"2", "3"}]
    start = min(line["step"] for line in second if line.get("stepped"))
    first = [line for line in lines if line["worker"] in {"0", "1"} and of(line) < start]
    check_each_once([*first, *second], total=TOTAL)


def of(line: dict[str, int]) -> int:
    return line.get("step", line.get("of", TOTAL))


def test_a_stopped_peer_is_given_up_within_the_limit(tmp_path: Path) -> None:
    agent = ("-n", "3", "--hang", "3")
    with driven(tmp_path, "mlp.py", *STEPS, *PAUSE, "--fault", "stop", agent=agent) as job:
        assert job.wait() == 0, job.logs()
    victim = job.named("exited")[0]
    assert victim["code"] == -signal.SIGKILL
    survivors = tuple({0, 1, 2} - {victim["worker"]})
    ended_as_undisturbed(job, survivors)


def test_a_worker_alone_that_hangs_is_killed_and_begun_again(tmp_path: Path) -> None:
    agent = ("-n", "1", "--hang", "2")
    with driven(tmp_path, "mlp.py", *STEPS, *PAUSE, "--fault", "hang", agent=agent) as job:
        job.reached(3)
        job.order("save")
        assert job.wait() == 0, job.logs()
    (first, second) = job.named("exited")
    assert (first["code"], second["code"]) == (-signal.SIGKILL, 0)
    assert applied(job.lines(1))["1"] == list(range(job.named("saved")[0]["step"] + 1, TOTAL))
    expected = undisturbed("mlp.py", *STEPS)["loss"]
    assert finals(job.lines())[0]["loss"] == pytest.approx(expected, abs=1e-6)
