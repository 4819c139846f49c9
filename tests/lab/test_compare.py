"""Recipes side by side: paired, reproducible, and the same in one process as in two."""

import pytest

from weft.lab.comparison import METRICS, compare
from weft.lab.experiment import Experiment, run
from weft.lab.workloads.source import Generated
from weft.model.errors import SpecError, UnknownName

TINY = Experiment(source=Generated(jobs=25), cluster="1x8", costs="tacc")


def test_every_recipe_meets_every_seed_and_the_first_is_the_measure() -> None:
    seen: list[tuple[int, int]] = []
    found = compare(
        TINY, recipes=["fifo", "las"], seeds=[0, 1], progress=lambda a, b: seen.append((a, b))
    )
    assert [(trial.recipe, trial.seed) for trial in found.trials] == [
        ("fifo", 0),
        ("fifo", 1),
        ("las", 0),
        ("las", 1),
    ]
    assert seen[-1] == (4, 4)
    first, second = found.rows
    for metric in METRICS:
        assert first.versus_first[metric.field].mean == 0.0
        difference = second.metrics[metric.field].mean - first.metrics[metric.field].mean
        assert second.versus_first[metric.field].mean == pytest.approx(difference)


def test_a_seed_names_a_workload_and_a_journal() -> None:
    one, again = (run(TINY) for _ in range(2))
    assert one.summary.journal_hash == again.summary.journal_hash
    seeds = compare(TINY, recipes=["las"], seeds=[0, 1]).trials
    assert seeds[0].summary.journal_hash != seeds[1].summary.journal_hash
    assert seeds[0].summary.journal_hash == one.summary.journal_hash


@pytest.mark.slow
def test_two_processes_find_what_one_finds() -> None:
    alone, together = (
        compare(TINY, recipes=["fifo", "las"], seeds=[0], workers=workers) for workers in (1, 2)
    )
    assert [t.summary.journal_hash for t in alone.trials] == [
        t.summary.journal_hash for t in together.trials
    ]


def test_one_seed_gives_no_interval() -> None:
    row = compare(TINY, recipes=["las"], seeds=[5]).rows[0]
    assert row.metrics["mean_jct_seconds"].half_width is None


@pytest.mark.parametrize(
    ("recipes", "seeds"), [([], [0]), (["las"], []), (["las", "las"], [0]), (["las"], [0, 0])]
)
def test_what_cannot_be_compared(recipes: list[str], seeds: list[int]) -> None:
    with pytest.raises(SpecError):
        compare(TINY, recipes=recipes, seeds=seeds)


def test_a_misspelt_recipe_is_told_before_anything_runs() -> None:
    with pytest.raises(UnknownName):
        compare(TINY, recipes=["fifo", "lsa"], seeds=[0], progress=pytest.fail)  # type: ignore[arg-type]
