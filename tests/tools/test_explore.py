"""The search with fresh seeds: what it prints and writes, and that what it writes is a test."""

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.promise import PromiseBroken
from tests.sim.random_world import Plan, draw
from tests.sim.subset import PARTS, subset
from tools.explore import worlds
from tools.explore.__main__ import Search, failure, main, search_for
from tools.explore.kinds import KINDS, Found
from tools.explore.reduce import reduced
from weft.model.ids import JobId

NEVER = 1e18


@pytest.fixture
def odd_seeds(monkeypatch: pytest.MonkeyPatch) -> str:
    """A kind whose odd seeds fail."""

    def trial(seed: int) -> None:
        if seed % 2:
            raise ValueError(f"{seed} is odd\nand more")

    module = ModuleType("odd")
    module.trial = trial  # type: ignore[attr-defined]
    module.reproducer = lambda found, until: f"assert {found.seed} % 2 == 0\n"  # type: ignore[attr-defined]
    monkeypatch.setattr("tools.explore.kinds.import_module", lambda name: module)
    return "fuzz"


@pytest.mark.usefixtures("odd_seeds")
def test_a_failure_is_printed_and_becomes_a_test(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--kind", "fuzz", "--seed", "7", "--folder", str(tmp_path), "-o", "json"]
    assert main(words) == 1
    said = capsys.readouterr()
    assert said.err.splitlines()[0] == "fuzz seed 7: ValueError: 7 is odd"
    assert (tmp_path / "test_fuzz_7.py").read_text() == "assert 7 % 2 == 0\n"
    report = json.loads(said.out)
    assert report["kinds"]["fuzz"]["trials"] == 1
    assert [one["seed"] for one in report["found"]] == [7]


@pytest.mark.usefixtures("odd_seeds")
def test_the_exit_status_tells_whether_something_was_found_or_nothing_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--kind", "fuzz", "--seed", "8", "--folder", str(tmp_path)]) == 0
    assert main(["--kind", "fuzz", "--minutes", "0", "--folder", str(tmp_path)]) == 2
    assert not list(tmp_path.iterdir())
    assert "0 failures found" in capsys.readouterr().out


@pytest.mark.usefixtures("odd_seeds")
def test_each_trial_has_a_seed_of_its_own(tmp_path: Path) -> None:
    search = Search(tmp_path)
    search_for(search, [KINDS["fuzz"]], 0.05, lambda seeds: seeds[0])
    seeds = [one["seed"] for one in search.found]
    assert seeds == [seed for seed in range(10**9, 10**9 + search.trials["fuzz"]) if seed % 2]


def test_a_trial_that_hangs_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("hanging")
    module.trial = lambda seed: time.sleep(60)  # type: ignore[attr-defined]
    monkeypatch.setattr("tools.explore.kinds.import_module", lambda name: module)
    hanging = type(KINDS["fuzz"])("fuzz", "", hang_seconds=0.01)
    assert isinstance(failure(hanging, 1), TimeoutError)


@given(st.lists(st.integers(0, 9), max_size=30), st.sets(st.integers(0, 29), max_size=4))
def test_what_is_reduced_is_what_the_failure_needs(items: list[int], needed: set[int]) -> None:
    numbered = list(enumerate(items))
    need = {place for place in needed if place < len(items)}

    def still_fails(some: Sequence[tuple[int, int]]) -> bool:
        return need <= {place for place, _ in some}

    assert reduced(numbered, still_fails, NEVER) == [numbered[place] for place in sorted(need)]


def test_a_world_without_any_part_left_out_is_the_world() -> None:
    plan = draw(11)
    assert subset(plan) == plan
    kept = {part: range(len(members(plan))) for part, members in PARTS.items()}
    assert subset(plan, **kept) == plan


def test_a_broken_world_is_reduced_to_a_test_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(plan: Plan, **_: int) -> None:
        if {JobId("j3"), JobId("j5")} <= {job.id for job in plan.jobs} and plan.crashes:
            raise PromiseBroken("I1", "two jobs hold one GPU")

    monkeypatch.setattr("tests.sim.play.play", play)
    monkeypatch.setattr(worlds, "play", play)
    seed = next(seed for seed in range(100) if len(draw(seed).crashes) > 1)
    error = failure(KINDS["worlds"], seed)
    assert error is not None
    source = worlds.reproducer(Found("worlds", seed, error), NEVER)
    assert "jobs=[3, 5]" in source
    assert re.search(r"crashes=\[\d\]", source)
    with pytest.raises(PromiseBroken):
        _run(source)


def _run(source: str) -> None:
    names: dict[str, object] = {}
    exec(compile(source, "reproducer", "exec"), names)
    test = next(found for name, found in names.items() if name.startswith("test_"))
    assert callable(test)
    test()
