"""AFS: the rule against its plain form, against the published pairwise rule, and in any order."""

from itertools import permutations

import numpy as np
import pytest

from benchmarks.elastic.decision import CURVES, CurveMaker, a_case, plainly, rungs_of
from benchmarks.elastic.handout_oracle import Rungs, one_by_one
from tests.builders import a_purse, sized
from tests.policy.size.random_climbs import RandomClimb, a_climb, random_climbs
from weft.model.snapshot import Ints
from weft.policy.size.afs import Afs

many = pytest.mark.parametrize("states", [500])

KNOWN, UNKNOWN = Afs(), Afs(lengths_known=False)


def widths(state: RandomClimb, size: Afs = KNOWN, left: int | None = None) -> list[int]:
    """What each job has after so many GPUs, in the order of the state."""
    return widths_in(state, np.arange(len(state)), size, left)


def widths_in(
    state: RandomClimb, order: Ints, size: Afs = KNOWN, left: int | None = None
) -> list[int]:
    climb = state.climb(order)
    found = np.empty(len(state), np.int64)
    found[order] = climb.ladders.width[
        size.climbed(climb, a_purse(state.left if left is None else left))
    ]
    return list(map(int, found))


def of_gains(
    *gains: float, lengths: list[float], attained: list[float] | None = None
) -> RandomClimb:
    """Jobs at speed 1 that would gain so much by one GPU more, and so long."""
    return a_climb([[1.0, 1.0 + gain] for gain in gains], lengths, attained)


# --- the rule -------------------------------------------------------------------------------------


def test_the_shorter_of_two_wins_unless_the_longer_would_miss_more_than_it_would_gain() -> None:
    assert widths(of_gains(0.3, 0.4, lengths=[10.0, 20.0])) == [2, 1]
    assert widths(of_gains(0.3, 0.5, lengths=[10.0, 20.0])) == [1, 2]
    assert widths(of_gains(0.5, 0.3, lengths=[10.0, 20.0])) == [2, 1]


def test_what_two_fractions_make_equal_is_equal_however_it_is_rounded() -> None:
    """Linear jobs: the gain of the fourth GPU is just what the third would be missed by."""
    state = a_climb([[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0]], work=[1.0, 1000.0])
    assert [widths(state, left=left) for left in range(5)] == [
        [1, 1],
        [2, 1],
        [3, 1],
        [3, 2],
        [4, 2],
    ]


def test_a_cycle_of_the_pairwise_rule_is_decided_in_every_order_alike() -> None:
    """C beats B, B beats A and A beats C: a scan that keeps a champion picks by storage."""
    a, b, c = 0.50, 0.35, 0.30
    state = of_gains(a, b, c, lengths=[30.0, 20.0, 10.0])
    assert [beats(state, 2, 1), beats(state, 1, 0), beats(state, 0, 2)] == [True] * 3
    champions = {champion(state, order) for order in permutations(range(3))}
    assert champions == {0, 1, 2}
    found = {tuple(widths_in(state, np.array(order))) for order in permutations(range(3))}
    assert found == {(1, 2, 1)}, "the shortest that nobody lies wholly above"


@many
def test_the_undefeated_job_wins_wherever_there_is_one(states: int) -> None:
    met = 0
    for state in random_climbs(states, seed=1, concave=True):
        climbers = [row for row in range(len(state)) if gain(state, row) > 0]
        undefeated = [
            row for row in climbers if all(beats(state, row, o) for o in climbers if o != row)
        ]
        if undefeated:
            (winner,) = undefeated
            expected = [1 + (row == winner) for row in range(len(state))]
            assert widths(state, left=1) == expected, state
            met += 1
    assert met > states / 2


@many
def test_shares_do_not_depend_on_the_order_of_jobs(states: int) -> None:
    chance = np.random.default_rng(2)
    for number, state in enumerate(random_climbs(states, seed=2)):
        size = UNKNOWN if number % 3 == 0 else KNOWN
        order = chance.permutation(len(state))
        assert widths_in(state, order, size) == widths(state, size), state


@many
@pytest.mark.parametrize("lengths_known", [True, False])
@pytest.mark.parametrize("hull", [True, False])
def test_phases_find_what_the_plain_form_finds(
    hull: bool, lengths_known: bool, states: int
) -> None:
    """Also on curves that are no hull, where S may rise again."""
    size = Afs(lengths_known=lengths_known)
    for state in random_climbs(states, seed=3, hull=hull):
        climb = state.climb()
        plain = one_by_one(
            Rungs(state.rungs()),
            state.work,
            state.attained,
            state.seq,
            state.left,
            lengths_known=lengths_known,
        )
        found = climb.ladders.width[size.climbed(climb, a_purse(state.left))]
        assert found.tolist() == plain.tolist(), state


@pytest.mark.parametrize("curves", CURVES.values())
def test_the_benchmark_measures_what_the_plain_form_finds(curves: CurveMaker) -> None:
    case = a_case(60, 240, curves, seed=0)
    widths = sized(Afs(), case.snapshot, case.slots)
    assert widths.tolist() == plainly(case, rungs_of(case)).tolist()
    assert widths.sum() == 240


# --- lengths that nobody knows --------------------------------------------------------------------


def test_without_lengths_the_least_served_wins() -> None:
    state = of_gains(0.3, 0.3, 0.3, lengths=[1.0, 2.0, 3.0], attained=[30.0, 10.0, 20.0])
    assert widths(state, UNKNOWN) == [1, 2, 1]
    assert widths(state, KNOWN) == [2, 1, 1]


def test_a_job_of_unknown_length_counts_as_the_longest() -> None:
    state = of_gains(0.3, 0.3, lengths=[np.nan, 1e9])
    assert widths(state) == [1, 2]


def test_jobs_of_unknown_length_go_by_service_among_themselves() -> None:
    state = of_gains(0.3, 0.3, lengths=[np.nan, np.nan], attained=[2.0, 1.0])
    assert widths(state) == [1, 2]


def test_equals_go_by_submission() -> None:
    state = of_gains(0.3, 0.3, lengths=[5.0, 5.0])
    state.seq[:] = 1, 0
    assert widths(state) == [1, 2]


# --- the published rule ---------------------------------------------------------------------------


def gain(state: RandomClimb, row: int) -> float:
    """Of a second GPU; 0 where there is none to have."""
    curve = state.curve[row]
    speeds = state.speeds[curve]
    return float(speeds[2] / speeds[1] - 1.0) if state.widest[curve] > 1 else 0.0


def length(state: RandomClimb, row: int) -> tuple[float, float, int]:
    """By which jobs are compared; unknown ones are the longest, by service among themselves."""
    work, seq = float(state.work[row]), int(state.seq[row])
    if np.isnan(work):
        return np.inf, float(state.attained[row]), seq
    return work / float(state.speeds[state.curve[row], 1]), 0.0, seq


def beats(state: RandomClimb, one: int, other: int) -> bool:
    """The shorter a wins against b iff p_a'/p_a + p_b/p_b' >= 2, rounding apart."""
    short, long = sorted((one, other), key=lambda row: length(state, row))
    shorter_wins = 1.0 + gain(state, short) + 1.0 / (1.0 + gain(state, long)) >= 2.0 - 1e-12
    return shorter_wins == (one == short)


def champion(state: RandomClimb, order: tuple[int, ...]) -> int:
    """Who is left of a scan in this order."""
    best, *rest = order
    for row in rest:
        best = row if beats(state, row, best) else best
    return best
