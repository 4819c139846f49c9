"""Every defence of the brain is needed: without it, some seed breaks a promise.

A mutant is tried on the seed that found it last, and then on seeds 0 to 199. The seed that
finds it must be clean without the mutant, or it has found something else.
"""

from collections.abc import Callable

import pytest

from tests.sim.mutants import MUTANTS, PAIRS, Mutant
from tests.sim.play import play
from tests.sim.random_world import draw

SEEDS = 200
MOST_STEPS = 15_000
FOUND_AT: dict[str, int] = {
    "a_late_stop_makes_the_world_forget_a_finish": 13,
    "absence believed, no guard": 13,
    "anybody_may_be_preempted": 6,
    "backoff_ends_without_a_round": 56,
    "cancel_while_stopping_forgotten": 10,
    "copy_shares_its_rows": 12,
    "epoch_not_checked_on_done": 51,
    "finished_job_accepted_again": 9,
    "jobs_on_a_lost_node_not_stopped": 8,
    "old_news_of_absence_believed": 3,
    "pledges_do_not_count_on_the_quota": 21,
    "pledges_on_a_lost_node_are_kept": 22,
    "quota_ignores_what_is_still_being_left": 6,
    "quota_not_checked": 6,
    "quota_of_ancestors_not_checked": 20,
    "quota_use_from_a_stale_copy": 6,
    "refused_start_not_released": 5,
    "seats_on_cordoned_nodes_offered": 19,
    "silence_never_probed": 22,
    "stop_not_repeated_when_it_was_lost": 13,
    "stopping_runs_found_after_a_crash_hold_nothing": 23,
}
"""Seeds that are known to find a mutant; without one the search starts at 0."""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_missing_defence_is_noticed(name: str, record_property: Callable[..., None]) -> None:
    record_property("seed", found_at(name, MUTANTS[name]))


@pytest.mark.parametrize("name", PAIRS)
def test_two_missing_defences_are_noticed(name: str, record_property: Callable[..., None]) -> None:
    record_property("seed", found_at(name, PAIRS[name]))


def found_at(name: str, mutant: Mutant) -> int:
    """The first seed that breaks a promise under the mutant and none without it."""
    known = FOUND_AT.get(name)
    seeds: list[int] = [*([] if known is None else [known]), *range(SEEDS)]
    for seed in seeds:
        with mutant():
            broken = breaks(seed)
        if broken and not breaks(seed):
            return seed
    raise AssertionError(f"{name} was not noticed in {SEEDS} seeds")


def breaks(seed: int) -> bool:
    try:
        play(draw(seed), most_steps=MOST_STEPS)
    except Exception:
        return True
    return False
