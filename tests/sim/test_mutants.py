"""Every defence of the brain is needed: without it, some seed breaks a promise.

The mutants that one short world notices are tried here, and those that break a law which is written
down by itself. `python -m tools.explore --kind mutants` tries all, on the seeds below first. Only a
broken promise counts: any other error shows that the mutant is written wrongly.
"""

from collections.abc import Callable
from functools import partial

import pytest

from tests.brain import test_holding as holding
from tests.perf import test_neighbours as neighbours
from tests.sim import failure_mutants  # noqa: F401 - they join the others
from tests.sim import test_laws as laws
from tests.sim import test_waits as waits
from tests.sim.mutants import MUTANTS, PAIRS
from tests.sim.play import play
from tests.sim.promise import PromiseBroken
from tests.sim.random_world import draw
from weft.model.errors import InvariantBreach

MOST_STEPS = 15_000
SEED = 0
FOUND_AT: dict[str, int] = {
    "a_breaker_never_opens": 17,
    "a_companion_that_goes_stays_on_the_list": 13,
    "a_new_brain_does_not_ask_who_takes_turns": 24,
    "a_new_brain_does_not_hear_of_nodes_and_services": 4,
    "a_new_brain_does_not_hear_of_retries": 4,
    "a_node_comes_back_whatever_its_check_says": 6,
    "a_node_that_shrinks_keeps_all_its_seats": 4,
    "a_round_asked_for_ignores_the_period": 2,
    "absence believed, no guard": 1,
    "an_open_breaker_holds_nobody": 17,
    "anybody_may_be_preempted": 6,
    "cancel_while_stopping_forgotten": 5,
    "copies_share_what_they_know_of_failures": 4,
    "copy_shares_its_rows": 6,
    "epoch_not_checked_on_done": 26,
    "gpus_do_not_pass_to_a_companion": 13,
    "jobs_on_a_lost_node_not_stopped": 1,
    "jobs_wait_for_kinder_neighbours": 1_063,
    "memory_of_those_who_take_turns_is_not_counted": 15,
    "moves_to_a_lost_node_are_kept": 42,
    "nodes_that_are_set_aside_are_offered": 4,
    "old_news_of_absence_believed": 1,
    "pledges_do_not_count_on_the_quota": 6,
    "pledges_on_a_lost_node_are_kept": 6,
    "quota_ignores_what_is_still_being_left": 9,
    "quota_not_checked": 4,
    "quota_of_ancestors_not_checked": 18,
    "quota_use_from_a_stale_copy": 6,
    "recorded_epoch_forgotten_after_a_crash": 6,
    "refused_start_not_released": 1,
    "retries_without_end": 1,
    "runs_found_after_a_crash_are_ignored": 3,
    "seats_are_kept_without_end": 1_003,
    "silence_never_probed": 1,
    "seats_being_left_count_as_free": 1,
    "sizing_ignores_the_quota_tree": 21,
    "stop_not_repeated_when_it_was_lost": 5,
    "stopping_runs_found_after_a_crash_hold_nothing": 24,
    "the_lead_of_a_party_yields_alone": 13,
    "the_same_failure_is_tried_again_without_end": 8,
    "those_who_matter_more_are_joined_too": 4,
    "tries_may_have_been_made_in_the_future": 1_021,
    "what_is_on_record_may_be_of_the_future": 1_021,
    "what_only_the_owner_can_cure_is_tried_again": 8,
    "who_would_rather_not_is_put_into_company": 13,
    "whoever_waited_too_long_stays_patient": 12,
}
"""The seed that notices a mutant; `SEED` notices all others, but those that follow."""

NOTICED_SELDOM = frozenset(
    {
        "a_pledge_starts_without_its_cores",
        "any_number_of_nodes_is_set_aside",
        "nodes_that_failed_a_job_are_offered_to_it",
        "strangers ignored, no guard",
    }
)
"""No seed is known for them."""

LAWS: dict[str, Callable[[], None]] = {
    "sizing_counts_all_gpus_as_one_domain": partial(
        laws.test_jobs_for_one_gpu_type_share_it_beside_idle_ones_of_another, "even", "xy"
    ),
    "a_guarantee_is_not_reclaimed_under_a_full_parent": partial(
        laws.test_a_guarantee_is_reclaimed_where_the_parents_cap_binds, "fifo", {"limit": 8}
    ),
    "what_refused_jobs_were_meant_to_have_stays_idle": partial(
        laws.test_what_a_gang_that_cannot_be_seated_was_to_have_does_not_idle, "even"
    ),
    "seats_are_numbered_twice": partial(
        laws.test_seats_that_a_job_grows_by_have_numbers_of_their_own, "even"
    ),
    "nobody_is_ever_overdue": (
        waits.test_whoever_has_waited_too_long_takes_parts_of_nodes_that_others_keep
    ),
    "seats_of_gangs_that_failed_are_given_away": (
        holding.test_it_starts_again_where_it_was_and_nobody_has_to_leave
    ),
    "what_is_learnt_of_neighbours_has_no_bound": (
        neighbours.test_nobody_is_believed_to_slow_others_beyond_measure
    ),
    "overdue_jobs_are_not_served_first": waits.test_whoever_has_waited_too_long_takes_seats_apart,
}
"""What is promised of a world that is seldom drawn: its law finds the mutant, and no seed need."""


@pytest.mark.parametrize("name", LAWS)
def test_a_missing_defence_breaks_a_law(name: str) -> None:
    LAWS[name]()
    with MUTANTS[name](), pytest.raises(AssertionError):
        LAWS[name]()


@pytest.mark.parametrize("name", sorted({*MUTANTS, *PAIRS} - {*LAWS, *FOUND_AT, *NOTICED_SELDOM}))
def test_a_missing_defence_is_noticed(name: str) -> None:
    with (MUTANTS | PAIRS)[name](), pytest.raises((InvariantBreach, PromiseBroken)):
        play(draw(SEED), most_steps=MOST_STEPS)


def test_the_seed_keeps_every_promise_without_a_mutant() -> None:
    play(draw(SEED), most_steps=MOST_STEPS)
