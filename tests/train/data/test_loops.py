"""Scripts with several loops, and with something behind the last one."""

import signal
from itertools import chain
from pathlib import Path

import pytest

from tests.train.alone import run_alone, undisturbed
from tests.train.driving import JOBS, Driven, driven
from tests.train.lines import check_each_once, finals, read_lines

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

LEFT = ("--leave", "5")


def check(job: Driven, *options: str, total: int) -> None:
    """To the end; each step once, each sample once a pass, and the bits of an undisturbed run."""
    (job.folder / "hurry").touch()
    assert job.wait() == 0, job.logs()
    if "--other" not in options:
        check_each_once(job.lines(), total=total)
    expected = undisturbed("loops.py", *options)
    ends = finals(job.lines())
    assert ends
    for end in ends:
        assert (end["steps"], end["digest"]) == (total, expected["digest"])


@pytest.mark.parametrize(
    ("width", "options"),
    [("1", ()), ("3", ()), ("3", ("--other",)), ("3", LEFT), ("2", (*LEFT, "--late"))],
    ids=str,
)
def test_all_loops_are_run(tmp_path: Path, width: str, options: tuple[str, ...]) -> None:
    total = 15 if "--leave" in options else 24
    with driven(tmp_path, "loops.py", *options, agent=("-n", width)) as job:
        check(job, *options, total=total)
    assert len(finals(job.lines())) == int(width)


def test_a_loader_of_its_own_begins_with_its_first_sample(tmp_path: Path) -> None:
    run_alone(JOBS / "loops.py", "--other", "--loops", "2", "--steps", "10", folder=tmp_path)
    taken = [line["took"] for line in read_lines(tmp_path) if "took" in line]
    half = len(taken) // 2
    for loop in (taken[:half], taken[half:]):
        assert sorted(chain.from_iterable(loop)) == list(range(160))


@pytest.mark.parametrize("options", [("--other",), LEFT], ids=str)
def test_newcomers_come_to_the_loop_in_which_the_others_are(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    slow = ("--pause", "0.1", "--loops", "12", "--between", "0.2")
    with driven(tmp_path, "loops.py", *slow, *options, agent=("-n", "1")) as job:
        job.reached(12)
        job.order("resize 3")
        epoch = job.steady(3)["epoch"]
        job.reached(job.newest_step + 9)
        job.signal(signal.SIGKILL, worker=0)
        job.steady(3, after=epoch)
        check(job, *slow, *options, total=12 * 5 if options == LEFT else 96)
    behind = [line for line in job.lines(1) if "behind" in line]
    assert not behind[0]["stepped_there"]
    assert behind[-1]["stepped_there"]


def test_a_loop_is_left_in_the_very_step_in_which_newcomers_come(tmp_path: Path) -> None:
    """They wait for one who has taken the step back, so they are told, and come in the next."""
    slow = ("--pause", "0.1", "--loops", "8", "--hold", "14", *LEFT)
    with driven(tmp_path, "loops.py", *slow, agent=("-n", "1")) as job:
        job.reached(13)
        job.order("resize 3")
        job.until(lambda e: e["event"] == "armed")
        (tmp_path / "go").touch()
        job.steady(3)
        assert len(job.named("halted")) == 1, "the newcomers came in another step"
        check(job, *slow, total=8 * 5)


def test_a_job_that_is_begun_again_goes_through_what_is_over(tmp_path: Path) -> None:
    options = ("--pause", "0.05", "--loops", "4")
    agent = ("-n", "2", "--checkpoints", str(tmp_path / "kept"))
    with driven(tmp_path, "loops.py", *options, agent=agent) as job:
        job.reached(18)
        job.order("drain")
        assert job.wait() == 143
    first = job.newest_step
    with driven(tmp_path, "loops.py", *options, agent=(*agent, "--incarnation", "2")) as job:
        check(job, *options, total=32)
    again = [line["step"] for line in job.lines() if line.get("stepped")]
    assert again.count(first) == again.count(0) == 2, "once by each of two"


@pytest.mark.parametrize(
    ("width", "victim", "options"),
    [("1", "0", ()), ("1", "0", LEFT), ("2", "0", (*LEFT, "--late")), ("2", "1", ())],
    ids=str,
)
def test_who_is_killed_behind_the_last_loop_has_not_finished(
    tmp_path: Path, width: str, victim: str, options: tuple[str, ...]
) -> None:
    """What it had to do there is done again, and no step for it."""
    with driven(tmp_path, "loops.py", *options, "--kill", victim, agent=("-n", width)) as job:
        check(job, *options, total=15 if options else 24)
    steps = [line["step"] for line in job.lines() if line.get("stepped")]
    assert all(steps.count(step) == int(width) for step in steps), "a step was made again"
    fresh = [end for end in finals(job.lines()) if int(end["worker"]) >= int(width)]
    assert len(fresh) == int(width)


def test_who_is_killed_behind_a_loop_is_replaced_in_the_next(tmp_path: Path) -> None:
    options = ("--loops", "2", "--between", "3", "--pause", "0.05")
    with driven(tmp_path, "loops.py", *options, agent=("-n", "2")) as job:
        job.until(lambda e: e["event"] == "saved")
        job.signal(signal.SIGKILL, worker=0)
        check(job, *options, total=16)
    assert "1" in {end["worker"] for end in finals(job.lines())}


def test_a_drain_behind_the_loop_is_no_finish(tmp_path: Path) -> None:
    agent = ("-n", "1", "--checkpoints", str(tmp_path / "kept"))
    with driven(tmp_path, "loops.py", *LEFT, "--export", "60", agent=agent) as job:
        job.until(lambda e: e["event"] == "saved" and e["step"] == 14)
        job.order("drain 1")
        assert job.wait() == 143
        assert not finals(job.lines())
    with driven(tmp_path, "loops.py", *LEFT, agent=(*agent, "--incarnation", "2")) as job:
        check(job, *LEFT, total=15)


def test_a_loop_that_an_error_has_left_is_gone_on_with(tmp_path: Path) -> None:
    agent = ("-n", "1", "--checkpoints", str(tmp_path / "kept"))
    with driven(tmp_path, "loops.py", *LEFT, "--late", "--fail", agent=agent) as job:
        assert job.wait() == 3
    with driven(tmp_path, "loops.py", agent=(*agent, "--incarnation", "2")) as job:
        assert job.wait() == 0, job.logs()
    (end,) = finals(job.lines())
    assert end["steps"] == 24


def test_a_loop_with_nothing_to_do_is_an_error(tmp_path: Path) -> None:
    script = tmp_path / "again.py"
    script.write_text(
        "import torch, weft\n"
        "model, opt = weft.prepare(torch.nn.Linear(1, 1), lambda p: torch.optim.SGD(p, 0.1))\n"
        "loader = weft.loader(torch.randn(8, 1), 2)\n"
        "for epoch in range(2):\n"
        "    for mb in weft.steps(loader, total=4):\n"
        "        weft.backward(model(mb.x).mean()); opt.step()\n"
    )
    done = run_alone(script, folder=tmp_path)
    assert done.code == 1
    assert "write total=8 for 4 more" in done.complaints
