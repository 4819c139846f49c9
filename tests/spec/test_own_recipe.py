"""What is wrong with a recipe of one's own is told by file, line and what was expected."""

from pathlib import Path

import pytest

from weft.lab.comparison import compare
from weft.lab.experiment import Experiment, run
from weft.lab.workloads.source import FromFile, Generated
from weft.model.errors import SpecError
from weft.spec.recipe import explained, make_recipe

HEAD = """\
import sys
import numpy as np
from dataclasses import replace
from functools import partial
from weft.policy.order.arrival import by_arrival
from weft.policy.order.attained import LeastAttained
from weft.policy.order.ranking import Ranking
from weft.policy.place.packing import Offer
from weft.policy.recipe import Recipe, Resizing, Rounds
def ordered(order): return Recipe(name="x", order=order)
def sized(size): return Recipe(name="x", order=by_arrival, size=size)
def placed(place): return Recipe(name="x", order=by_arrival, place=place)
"""
AT = HEAD.count("\n") + 1
SMALL = Experiment(source=Generated(jobs=6), cluster="2x4")

IN_A_RUN = {
    "def f(snapshot, slots): return list(slots)\nmine = ordered(f)": (
        f"line {AT}, in f: returned a list; expected a Ranking"
    ),
    "def f(snapshot, slots):\n    return snapshot.job(99)\nmine = ordered(f)": (
        f"line {AT + 1}, in f: IndexError"
    ),
    "mine = ordered(lambda snapshot, slots: None)": "<lambda>: returned None; expected a Ranking",
    "mine = ordered(partial(lambda snapshot, slots: 3))": "returned an int; expected a Ranking",
    "mine = ordered(lambda s, t: Ranking(s.jobs.submitted[t]))": "expected a tuple of arrays",
    "mine = ordered(lambda s, t: Ranking((s.jobs.submitted,)))": "one for each of the slots",
    "mine = ordered(lambda s, t: Ranking((s.jobs.submitted[t] * np.nan,)))": "NaN for job 'job-",
    "mine = ordered(lambda s, t: Ranking((s.jobs.seq[t],), wake=np.nan))": "wake of its Ranking",
    "mine = ordered(lambda s, t: s.jobs.seq.fill(0))": "ValueError: ",
    "mine = ordered(lambda s, t: sys.exit(3))": "SystemExit: 3",
    "mine = sized(lambda s, t, supply: s.jobs.asked_gpus[t] * 9)": "GPUs; expected exactly",
    "mine = sized(lambda s, t, supply: s.jobs.asked_gpus[t] * 0)": "0 GPUs; expected exactly",
    "mine = sized(lambda s, t, supply: s.jobs.asked_gpus[t] * 1.0)": "expected whole numbers",
    "mine = sized(lambda s, t, supply: s.jobs.asked_gpus[t] * np.nan)": "NaN for job 'job-",
    "mine = sized(lambda s, t, supply: s.jobs.asked_gpus[t].tolist())": "returned a list",
    "mine = placed(lambda r, f, k, w, avoid=None: (0, w))": "returned a tuple; expected an Offer",
    "mine = placed(lambda r, f, k, w, avoid=None: Offer(((9, w),), 1, 1.0, 1.0))": (
        "its offer is on nodes [9]; expected different ones of 0 to 1"
    ),
    "mine = placed(lambda r, f, k, w, avoid=None: Offer(((0, w + 1),), 1, 1.0, 1.0))": (
        "that were asked for"
    ),
    "mine = placed(lambda r, f, k, w, avoid=None: Offer(((0, w / 1),), 1, 1.0, 1.0))": (
        "a tuple of pairs (node, GPUs) of int"
    ),
}
BEFORE_IT = {
    "mine = ordered(lambda snapshot: 1)": "called as order(snapshot, slots)",
    "mine = ordered(LeastAttained)": "make one: LeastAttained()",
    "mine = ordered(by_arrival(1, 2))": f"line {AT}",
    "mine = ordered(7)": "order is an int, not a function",
    "mine = placed(lambda r, f, k, w: None)": "unexpected keyword argument 'avoid'",
    "mine = replace(ordered(by_arrival), passing='anybody')": "expected Passing",
    "mine = replace(ordered(by_arrival), rounds=Rounds(period_seconds=0.0))": "more than 0 seconds",
    "mine = replace(ordered(by_arrival), name=None)": "the name of a recipe is None",
    "def mine(hold): return ordered(by_arrival)": "parameter 'hold' has no value",
    "def mine(): raise RuntimeError('oh')": f"line {AT}, in mine: RuntimeError: oh",
    "def mine(*, x: 'Nope' = 1): return ordered(by_arrival)": "name 'Nope' is not defined",
    "def mine(): pass": "'mine' is None, not a recipe",
    "mine = (": f"line {AT}: SyntaxError",
    "sys.exit(4)": f"line {AT}, in <module>: SystemExit: 4",
    "mime = 1\ndef mines(): pass": "did you mean 'mines'?",
}


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mine.py"


@pytest.mark.parametrize("code", IN_A_RUN)
def test_a_wrong_answer_is_told_when_it_is_given(mine: Path, code: str) -> None:
    mine.write_text(HEAD + code)
    with pytest.raises(SpecError) as caught:
        run(Experiment(source=SMALL.source, cluster="2x4", recipe="mine.py:mine"))
    assert str(caught.value).startswith("mine.py line ")
    assert IN_A_RUN[code] in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("code", BEFORE_IT)
def test_what_can_be_seen_before_a_run_is_told_then(mine: Path, code: str) -> None:
    mine.write_text(HEAD + code)
    with pytest.raises(SpecError) as caught:
        make_recipe("mine.py:mine")
    assert BEFORE_IT[code] in f"{caught.value} {caught.value.hint}"
    assert "mine.py" in str(caught.value)


def test_an_elastic_size_may_give_nothing_but_not_too_little(mine: Path, tmp_path: Path) -> None:
    table = tmp_path / "jobs.csv"
    table.write_text(
        "job_id,submit_seconds,duration_seconds,gpus,asked_gpus\na,0,60,2..4,4\nb,0,60,2..4,4\n"
    )
    elastic = "mine = replace(sized(lambda s, t, supply: {}), resizing=Resizing())\n"
    experiment = Experiment(source=FromFile(path=str(table)), cluster="1x4", recipe="mine.py:mine")
    mine.write_text(HEAD + elastic.format("np.where(np.arange(len(t)) == 0, 4, 0)"))
    assert run(experiment).summary.finished == 2
    mine.write_text(HEAD + elastic.format("np.ones(len(t), int)"))
    with pytest.raises(SpecError, match="gives job 'a' 1 GPU; expected 2 to 4, as the job asked"):
        run(experiment)


def test_no_node_is_promised_twice(mine: Path, tmp_path: Path) -> None:
    table = tmp_path / "jobs.csv"
    table.write_text("job_id,submit_seconds,duration_seconds,gpus\na,0,60,3\nb,0,60,3\n")
    mine.write_text(
        HEAD + "mine = placed(lambda r, f, k, w, avoid=None: Offer(((0, w),), 1, 1.0, 1.0))\n"
    )
    experiment = Experiment(source=FromFile(path=str(table)), cluster="2x4", recipe="mine.py:mine")
    with pytest.raises(SpecError, match="takes 3 GPUs of node 0; expected at most the 1 it can"):
        run(experiment)


@pytest.mark.slow
def test_a_comparison_in_several_processes_tells_it_too(mine: Path) -> None:
    mine.write_text(HEAD + "def f(snapshot, slots): return 0\nmine = ordered(f)\n")
    with pytest.raises(SpecError, match=rf"line {AT}, in f: returned an int; expected a Ranking"):
        compare(SMALL, recipes=["fifo", "mine.py:mine"], seeds=[0], workers=2)
    mine.write_text(HEAD + "import os\nmine = ordered(lambda s, t: os._exit(1))\n")
    with pytest.raises(SpecError, match="a process of the comparison ended") as caught:
        compare(SMALL, recipes=["fifo", "mine.py:mine"], seeds=[0], workers=2)
    assert "--workers 1" in caught.value.hint


def test_what_it_prints_is_talk(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine.write_text(
        HEAD + "print('read')\ndef f(s, t):\n    print('asked')\n    return by_arrival(s, t)\n"
        "mine = ordered(f)\n"
    )
    run(Experiment(source=SMALL.source, cluster="2x4", recipe="mine.py:mine"))
    told = capsys.readouterr()
    assert told.out == ""
    assert "read\n" in told.err and "asked\n" in told.err


def test_parts_of_ours_are_left_as_they_are(mine: Path) -> None:
    mine.write_text(HEAD + "mine = ordered(by_arrival)\n")
    made, again = make_recipe("mine.py:mine"), make_recipe("mine.py:mine")
    assert made == again
    assert "Checked" not in repr(made)


def test_its_parameters_are_explained_by_its_docstring(mine: Path) -> None:
    mine.write_text(
        HEAD + "def mine(*, hold: float = 3.0, wide: bool = False):\n"
        '    """Mine.\n\n    hold: seconds\n        of rest\n    """\n'
        "    return ordered(by_arrival)\nready = mine()\n"
    )
    _, about, (hold, wide) = explained("mine.py:mine")
    assert about == "Mine."
    assert (hold.name, hold.default, hold.meaning.text) == ("hold", 3.0, "seconds of rest")
    assert (wide.kind, wide.meaning.text) == ("true or false", "")
    assert explained("mine.py:ready")[2] == ()
