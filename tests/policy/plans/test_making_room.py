"""Jobs that change while they train give GPUs to those who wait, and cost less to change."""

from dataclasses import replace
from typing import Any

import pytest

from tests.policy.plans.bidders import bid, market
from weft.policy.plans.bids import Bid
from weft.policy.plans.greedy import greedily
from weft.policy.plans.planning import Planning

PLANNING = Planning(own_budget=1.0)
WAYS = ((1, 1.0), (2, 1.8), (4, 3.0))


def running(**known: Any) -> Bid:
    """On four GPUs for long, and so expected to go on for long."""
    about: dict[str, Any] = {"work_done": 1e5, "ran_seconds": 4e4}
    return bid(0, *WAYS, held=4, **{"live": True, "change_seconds": 1.0} | about | known)


def newcomer(gpus: int = 1, **known: Any) -> Bid:
    return bid(1, (gpus, 1.0), **known)


def test_it_gives_as_few_as_are_needed() -> None:
    chosen = greedily([running(), newcomer()], market(4), PLANNING)
    assert (chosen[0].gpus, chosen[1].gpus) == (2, 1)
    chosen = greedily([running(), newcomer(3)], market(4), PLANNING)
    assert (chosen[0].gpus, chosen[1].gpus) == (1, 3)


def test_nobody_is_narrowed_beside_gpus_that_suffice() -> None:
    chosen = greedily([running(), newcomer()], market(5), PLANNING)
    assert (chosen[0].gpus, chosen[1].gpus) == (4, 1)


@pytest.mark.parametrize(
    "known",
    [
        {"live": False},
        {"settled": True},
        {"promised": 3.0},
        {"priority": 1},
        {"lost_seconds": 1e9},
    ],
    ids=lambda known: next(iter(known)),
)
def test_who_may_not_be_narrowed_keeps_all(known: dict[str, Any]) -> None:
    planning = replace(PLANNING, yields_after_seconds=1e9)
    chosen = greedily([running(**known), newcomer()], market(4), planning)
    assert chosen[0].gpus == 4
    assert 1 not in chosen


def test_who_is_not_stopped_makes_room_all_the_same() -> None:
    """It has nothing saved, and loses nothing by going on with fewer."""
    chosen = greedily([running(yields=False), newcomer()], market(4), PLANNING)
    assert chosen[0].gpus < 4 and 1 in chosen


def test_who_has_saved_nothing_since_it_began_is_not_stopped() -> None:
    """Or a job that was cut short before would run for nothing again and again."""
    planning = replace(PLANNING, yields_after_seconds=0.0)
    stays = running(live=False, ran_seconds=600.0)
    assert planning.stopping(stays, 60.0)
    assert not planning.stopping(replace(stays, ripe=False), 60.0)


def test_who_would_lose_more_than_others_gain_keeps_all() -> None:
    """It is nearly done, and whoever comes has a day before it."""
    nearly = running(work_left=1.0)
    chosen = greedily([nearly, newcomer(work_left=86_400.0)], market(4), PLANNING)
    assert chosen == {0: nearly.held}


def test_without_an_allowance_nobody_is_narrowed() -> None:
    chosen = greedily([running(), newcomer()], market(4, allowance=0.0), PLANNING)
    assert 1 not in chosen


def test_a_cheap_change_is_worth_what_a_restart_is_not() -> None:
    """Half a minute is to be saved."""
    about: dict[str, Any] = {"held": 2, "work_left": 75.0, "ran_seconds": 100.0}
    live = bid(0, *WAYS, live=True, change_seconds=1.0, **about)
    anew = bid(0, *WAYS, **about)
    assert greedily([live], market(4), PLANNING)[0].gpus == 4
    assert greedily([anew], market(4), PLANNING)[0].gpus == 2


def test_a_change_while_it_trains_is_no_restart() -> None:
    often = bid(0, *WAYS, held=2, work_left=1e5, restarts=9, live=True, change_seconds=1.0)
    assert greedily([often], market(4), PLANNING)[0].gpus == 4
    assert greedily([replace(often, live=False)], market(4), PLANNING)[0].gpus == 2
