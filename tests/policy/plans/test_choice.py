"""Who is given what: cliffs, promises, budgets, quotas; the program beside the greedy choice."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.policy.plans.bidders import bid, market, option
from weft.policy.plans.bids import Bid
from weft.policy.plans.choice import choose
from weft.policy.plans.greedy import Chosen, greedily
from weft.policy.plans.market import Market
from weft.policy.plans.planning import Planning, Rule, on_envelope
from weft.policy.plans.program import solved

GREEDY = Planning(exact=False)
EXACT = Planning(exact=True)
BOTH = pytest.mark.parametrize("planning", [GREEDY, EXACT], ids=["greedy", "exact"])

LLAMA = ((8, 0.1), (16, 0.9))
"""As measured: eight times as fast on twice the GPUs."""
ROBERTA = ((1, 1.4), (4, 2.7), (8, 4.6))


@BOTH
def test_a_cliff_is_one_step(planning: Planning) -> None:
    """One GPU more at a time would never reach the sixteenth."""
    chosen = choose([bid(0, *LLAMA), bid(1, *ROBERTA)], market(24), planning)
    assert chosen[0].gpus == 16
    assert chosen[1].gpus == 8


@BOTH
def test_who_is_promised_a_speed_gets_no_less(planning: Planning) -> None:
    chosen = choose([bid(0, *ROBERTA, promised=2.0), bid(1, *ROBERTA)], market(4), planning)
    assert 0 not in chosen or chosen[0].speed >= 2.0
    assert choose([bid(0, *ROBERTA, promised=2.0)], market(3), planning) == {}


def test_what_was_asked_for_keeps_any_promise() -> None:
    """Its forecast may have a slower end below the promise, which was made of the same plan."""
    asked = option(4, 1.9, as_asked=True)
    one = Bid(slot=0, options=(asked,), asked_speed=1.9, work_done=0.0, promised=2.0)
    assert choose([one], market(8), GREEDY) == {0: asked}


@BOTH
def test_a_running_job_changes_only_where_that_pays(planning: Planning) -> None:
    """It is expected to have as much before it as behind it: 100 s on 1 GPU, or 50 s on 2."""
    young = bid(0, (1, 1.0), (2, 2.0), held=1, work_done=100.0, ran_seconds=100.0)
    assert choose([young], market(8), planning)[0].gpus == 1
    old = bid(0, (1, 1.0), (2, 2.0), held=1, work_done=9000.0, ran_seconds=9000.0)
    assert choose([old], market(8), planning)[0].gpus == 2


@BOTH
@pytest.mark.parametrize(
    "why",
    [
        {"settled": True},
        {"yields": False},
        {"restarts": 3},
        {"lost_seconds": 600.0},
        {"busy_seconds": 1.0},
    ],
    ids=lambda why: next(iter(why)),
)
def test_who_may_not_change_stays_as_it_is(planning: Planning, why: dict[str, object]) -> None:
    old = bid(0, (1, 1.0), (2, 2.0), held=1, work_done=9000.0, ran_seconds=9000.0, **why)
    assert choose([old], market(8), planning)[0].gpus == 1


@BOTH
def test_restarts_are_paid_from_the_allowance(planning: Planning) -> None:
    old = bid(0, (1, 1.0), (2, 2.0), held=1, work_done=9000.0, ran_seconds=9000.0)
    assert choose([old], market(8, allowance=100.0), planning)[0].gpus == 1
    assert choose([old], market(8, allowance=120.0), planning)[0].gpus == 2


def test_the_last_of_the_budget_goes_to_what_saves_most() -> None:
    old = bid(0, (1, 1.0), (2, 2.0), held=1, work_done=9000.0, ran_seconds=9000.0)
    planning = replace(GREEDY, scarce=20.0)
    scarce = market(8, scarcity=1.0, restart=200.0)
    assert choose([old], scarce, planning)[0].gpus == 1
    assert choose([old], market(8, restart=200.0), planning)[0].gpus == 2


@BOTH
def test_a_queue_holds_no_more_than_it_may(planning: Planning) -> None:
    bids = [bid(n, *ROBERTA, queue=n % 2) for n in range(6)]
    chosen = choose(bids, market(64, room=(2, 8)), planning)
    used = [
        sum(chosen[one.slot].gpus for one in bids if one.queue == q and one.slot in chosen)
        for q in (0, 1)
    ]
    assert used[0] <= 2 and used[1] <= 8


@BOTH
def test_one_that_has_run_for_long_stops_for_many(planning: Planning) -> None:
    long = bid(0, (8, 1.0), held=8, work_done=20_000.0, ran_seconds=20_000.0)
    waiting = [bid(n, (2, 1.0)) for n in range(1, 5)]
    assert 0 not in choose([long, *waiting], market(8), planning)
    promised = bid(0, (8, 1.0), held=8, work_done=20_000.0, ran_seconds=20_000.0, promised=0.5)
    assert 0 in choose([promised, *waiting], market(8), planning)


def test_a_stopgap_is_begun_with_and_not_grown_to() -> None:
    """Two GPUs with offload are no better use of GPUs than one: the way leads to sixteen."""
    options = tuple(option(gpus, speed) for gpus, speed in ((1, 0.017), (2, 0.033), (16, 0.88)))
    assert [one.gpus for one in on_envelope(options)] == [16]


@pytest.mark.parametrize(
    ("gpus", "live", "taken"), [(3, True, 3), (4, True, 4), (3, False, 2), (4, False, 4)]
)
def test_who_changes_while_it_trains_takes_a_stopgap_too(gpus: int, live: bool, taken: int) -> None:
    """A third GPU is a tenth of a step's use: not worth a restart, but else it would be idle."""
    known = {"work_done": 1e5, "ran_seconds": 1e5, "live": live}
    known |= {"change_seconds": 1.0} if live else {}
    one = bid(0, (1, 1.0), (2, 1.9), (3, 2.1), (4, 3.3), held=2, **known)
    assert choose([one], market(gpus), Planning())[0].gpus == taken


def test_sia_gives_everybody_something_first() -> None:
    sia = Planning(rule=Rule.GOODPUT, exact=False)
    chosen = choose([bid(n, *ROBERTA) for n in range(4)], market(4), sia)
    assert {one.gpus for one in chosen.values()} == {1}


@st.composite
def crowds(draw: st.DrawFn) -> tuple[list[Bid], Market]:
    bids, held = [], 0
    for slot in range(draw(st.integers(1, 12))):
        widths = sorted(draw(st.sets(st.sampled_from([1, 2, 4, 8, 16, 32]), min_size=1)))
        speeds = [(gpus, draw(st.floats(0.1, 10.0))) for gpus in widths]
        runs = draw(st.sampled_from([0, *widths]))
        held += runs
        done = draw(st.floats(0.0, 1e5))
        more = {"work_done": done, "ran_seconds": done, "queue": draw(st.integers(0, 1))}
        bids.append(bid(slot, *speeds, held=runs, **more))
    gpus = held + draw(st.integers(0, 64))
    rooms = draw(st.sampled_from([(), (gpus, gpus)]))
    allowance = draw(st.sampled_from([0.0, 500.0, 1e6]))
    return bids, market(gpus, allowance=allowance, room=rooms)


def used(chosen: Chosen) -> int:
    return sum(one.gpus for one in chosen.values())


def paid(bids: Sequence[Bid], chosen: Chosen, seconds: float) -> float:
    total = 0.0
    for one in bids:
        now = chosen.get(one.slot)
        if one.held is not None and now is not one.held:
            total += (one.held if now is None else now).gpus * seconds
    return total


@BOTH
def test_gpus_that_a_job_leaves_are_given_once(planning: Planning) -> None:
    """One that is faster on fewer goes there, and is not stopped for others as well."""
    long = bid(0, (1, 2.0), (2, 1.0), held=2, work_done=3_600.0, ran_seconds=3_600.0)
    crowd = [long, *(bid(slot, (1, 1.0)) for slot in range(1, 5))]
    assert used(choose(crowd, market(2, allowance=500.0), planning)) <= 2


@given(crowds())
@settings(max_examples=30, deadline=None)
def test_every_choice_is_feasible(crowd: tuple[list[Bid], Market]) -> None:
    bids, there = crowd
    for planning in (GREEDY, EXACT):
        chosen = choose(bids, there, planning)
        assert used(chosen) <= there.gpus
        assert paid(bids, chosen, there.restart_seconds) <= there.allowance + 1e-6
        for one in bids:
            assert one.slot not in chosen or chosen[one.slot] in (*one.options, one.held)


@given(crowds())
@settings(max_examples=20, deadline=None)
def test_the_program_is_no_worse_than_the_greedy_choice(crowd: tuple[list[Bid], Market]) -> None:
    bids, there = crowd
    greedy = greedily(bids, there, EXACT)
    found = solved(bids, there, EXACT, greedy)
    assert found.worth <= found.bound + 1e-9
    assert 0.0 <= found.gap <= 1.0
    again = solved(bids, there, EXACT, greedy)
    assert again.chosen == found.chosen
