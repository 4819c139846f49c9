"""Both sides of the protocol keep their promises in random histories, or are caught."""

import pytest

from tests.agent.coordination.crowd import PromiseBroken
from tests.agent.coordination.histories import play
from tests.agent.coordination.mutants import MUTANTS
from weft.model.errors import IllegalTransition

CHUNKS = 6
EACH = 200
FOUND_AT = {
    "a_drain_is_not_agreed_on": 126,
    "a_drain_is_overheard": 11,
    "a_member_that_is_silent_to_a_new_head_is_waited_for": 232,
    "a_new_head_counts_epochs_from_the_beginning": 177,
    "a_new_head_takes_every_epoch_as_it_is": 24,
    "a_newcomer_takes_the_state_for_one_of_a_later_step": 1,
    "a_newcomer_without_the_state_counts_steps": 1,
    "a_replica_need_not_be_whole": 17,
    "a_standby_is_overheard": 890,
    "a_step_in_hand_is_applied_whether_it_counts_or_not": 19,
    "a_step_in_hand_is_never_applied": 26,
    "a_step_is_counted_twice": 0,
    "a_step_is_not_counted": 0,
    "a_switch_is_not_agreed_on": 2,
    "a_switch_keeps_the_members_of_the_last": 1,
    "all_begin_again_one_step_too_far": 0,
    "all_who_answer_go_on": 134,
    "an_epoch_is_armed_when_one_has_built_it": 1,
    "an_epoch_is_entered_with_the_members_of_the_last": 0,
    "an_epoch_number_is_used_again": 1,
    "an_epoch_that_begins_anew_keeps_its_old_step": 58,
    "an_order_is_not_heard": 10,
    "newcomers_are_not_told_apart": 1,
    "newcomers_bring_samples_before_they_have_the_state": 1,
    "nobody_is_told_that_an_epoch_is_armed": 2,
    "nobody_is_told_to_drain": 11,
    "nobody_is_told_to_stand_by": 603,
    "nobody_is_told_what_to_build": 2,
    "nobody_is_told_where_to_go_on": 0,
    "nobody_tells_of_the_first_step": 0,
    "not_all_answers_are_waited_for": 26,
    "old_orders_are_followed_after_a_failure": 17,
    "one_switches_when_it_has_built": 2,
    "one_that_has_stopped_is_waited_for": 36,
    "one_that_is_alone_may_stop": 36,
    "one_that_is_to_leave_stays": 2,
    "orders_of_the_head_before_are_followed": 33,
    "the_last_step_of_all_is_taken_back": 20,
    "the_least_that_anyone_has_applied_counts": 26,
    "the_lost_are_forgotten": 1,
    "what_could_not_be_built_is_said_to_stand": 33,
    "what_was_asked_of_the_head_before_is_not_asked_again": 17,
    "what_was_built_before_counts_for_what_is_built_now": 226,
    "who_is_to_leave_may_stay": 10,
}
"""A seed that notices each mutant; `python -m tools.explore --kind mutants` looks at others."""


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_history_keeps_every_promise(chunk: int) -> None:
    for seed in range(chunk * EACH, (chunk + 1) * EACH):
        play(seed)


def test_there_are_enough_mutants() -> None:
    assert len(MUTANTS) >= 30


@pytest.mark.parametrize("name", MUTANTS)
def test_a_missing_defence_is_noticed(name: str) -> None:
    """By a broken promise; any other error shows that the mutant is written wrongly."""
    with MUTANTS[name](), pytest.raises((PromiseBroken, IllegalTransition)):
        play(FOUND_AT[name])
