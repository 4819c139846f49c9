"""A gang has its turn as a whole, whoever of it comes late, dies, or is in another epoch."""

import random

import pytest

from weft.agent.leases.gangs import Gangs, Told, Worker
from weft.agent.messages import Granted, Turn, Wanted
from weft.model.errors import ProtocolError

BOTH = ("gpu", "network")


def worker(gang: str, number: int) -> Worker:
    return Worker(gang, "loop", number)


A0, A1, B0, B1 = worker("a", 0), worker("a", 1), worker("b", 0), worker("b", 1)


def turn(*members: int, epoch: int = 1, bound: float = 5.0, term: float = 1.0) -> Turn:
    return Turn(epoch, members or (0, 1), (0, 1), BOTH, bound, term)


def gangs(*workers: Worker) -> Gangs:
    made = Gangs()
    for one in workers:
        made.came(one)
    return made


def who(told: list[Told]) -> list[Worker]:
    """Those who may begin."""
    return [one for one, _ in granted(told)]


def granted(told: list[Told]) -> list[tuple[Worker, Granted]]:
    return [(one, answer) for one, answer in told if isinstance(answer, Granted)]


def test_all_of_a_gang_are_told_at_once_when_all_are_there() -> None:
    turns = gangs(A0, A1)
    assert turns.asked(A0, turn(), 0.0) == []
    told = turns.asked(A1, turn(), 0.3)
    assert who(told) == [A0, A1]
    assert {answer.at_seconds for _, answer in granted(told)} == {0.3}


def test_two_gangs_that_ask_crosswise_do_not_have_a_half_each() -> None:
    turns = gangs(A0, A1, B0, B1)
    assert turns.asked(A0, turn(), 0.0) == []
    assert turns.asked(B1, turn(), 0.0) == []
    assert who(turns.asked(A1, turn(), 0.0)) == [A0, A1]
    assert turns.asked(B0, turn(), 0.0) == []
    assert turns.given_back(A0, BOTH, 0.1) == []
    assert who(turns.given_back(A1, BOTH, 0.2)) == [B0, B1]


def test_what_a_gang_needs_no_more_is_free_when_all_have_given_it_back() -> None:
    alone = Worker("c", "loop", 0)
    turns = gangs(A0, A1, alone)
    turns.asked(A0, turn(), 0.0)
    turns.asked(A1, turn(), 0.0)
    assert turns.asked(alone, Turn(1, (0,), (1,), ("gpu",), 5.0, 1.0), 0.0) == []
    assert turns.given_back(A1, ("gpu",), 0.1) == []
    assert who(turns.given_back(A0, ("gpu",), 0.2)) == [alone]


def test_who_comes_late_to_a_step_does_not_wait() -> None:
    """The others may be in a collective already, and wait for it there."""
    turns = gangs(A0)
    assert who(turns.asked(A0, turn(), 0.0)) == [A0]
    turns.given_back(A0, ("gpu",), 0.1)
    turns.came(A1)
    assert who(turns.asked(A1, turn(), 0.2)) == [A1]


def test_who_is_in_no_epoch_is_not_waited_for() -> None:
    turns = gangs(A0, A1)
    assert who(turns.asked(A0, turn(0), 0.0)) == [A0]


def test_the_death_of_a_worker_completes_its_gang() -> None:
    turns = gangs(A0, A1)
    turns.asked(A0, turn(), 0.0)
    assert who(turns.left(A1, 0.1)) == [A0]


def test_the_death_of_a_worker_gives_back_what_only_it_had() -> None:
    turns = gangs(A0, A1, B0)
    turns.asked(A0, turn(), 0.0)
    turns.asked(A1, turn(), 0.0)
    turns.asked(B0, turn(0), 0.0)
    turns.given_back(A0, BOTH, 0.1)
    assert who(turns.left(A1, 0.2)) == [B0]


def test_with_its_last_worker_a_gang_is_gone() -> None:
    turns = gangs(A0, B0)
    turns.asked(A0, turn(0), 0.0)
    turns.asked(B0, turn(0), 0.0)
    assert who(turns.left(A0, 0.1)) == [B0]
    assert turns.table.waiting == ()


def test_another_epoch_frees_whoever_waits_in_the_old_one() -> None:
    turns = gangs(A0, A1)
    turns.asked(A0, turn(epoch=1), 0.0)
    assert who(turns.asked(A1, turn(1, epoch=2), 0.1)) == [A0, A1]
    assert who(turns.asked(A0, turn(epoch=1), 0.2)) == [A0], "an epoch that is over"


def test_a_gang_that_is_never_whole_goes_on_at_its_bound() -> None:
    turns = gangs(A0, A1)
    turns.asked(A0, turn(bound=2.0), 1.0)
    assert turns.next_deadline == 3.0
    assert turns.passed(2.9) == []
    assert who(turns.passed(3.0)) == [A0]
    assert who(turns.asked(A1, turn(bound=2.0), 3.1)) == [A1]


def test_the_bound_counts_from_the_first_that_asked() -> None:
    turns = gangs(A0, A1, B0)
    turns.asked(B0, turn(0, term=9.0), 0.0)
    turns.asked(A0, turn(bound=2.0), 1.0)
    turns.asked(A1, turn(bound=2.0), 2.5)
    assert turns.next_deadline == 3.0
    assert who(turns.passed(3.0)) == [A0, A1]


def test_no_term_is_longer_than_the_longest() -> None:
    turns = gangs(A0, B0)
    turns.asked(A0, turn(0, term=1e9), 0.0)
    turns.asked(B0, turn(0, bound=1e9), 0.0)
    assert turns.next_deadline == 10.0


def test_nonsense_is_refused_before_it_changes_anything() -> None:
    turns = gangs(A0, A1)
    turns.asked(A0, turn(), 0.0)
    with pytest.raises(ProtocolError, match="below 0"):
        turns.asked(A1, turn(term=-1.0), 0.0)
    assert who(turns.asked(A1, turn(), 0.0)) == [A0, A1]


def test_who_had_to_be_passed_is_told_how_often() -> None:
    turns = gangs(A0, B0)
    turns.asked(A0, turn(0, term=0.5), 0.0)
    turns.asked(B0, turn(0), 0.0)
    turns.passed(0.5)
    turns.asked(A0, turn(0), 0.6)
    ((_, answer),) = granted(turns.given_back(B0, BOTH, 0.7))
    assert answer.breaches == 1


def test_one_that_only_asks_again_has_given_nothing_back() -> None:
    """It goes from step to step and ignores turns: others wait less and less for it."""
    turns, now, waits = gangs(A0, B0), 0.0, []
    for _ in range(4):
        turns.asked(A0, turn(0, term=0.8), now)
        turns.asked(B0, turn(0), now)
        due = turns.next_deadline
        assert due is not None
        waits.append(due - now)
        turns.passed(due)
        turns.given_back(B0, BOTH, due)
        now = due
    assert waits == pytest.approx([0.8, 0.4, 0.2, 0.1])


def test_one_alone_is_told_that_what_it_has_is_wanted() -> None:
    turns = gangs(A0, B0)
    turns.asked(A0, turn(0), 0.0)
    assert turns.asked(B0, turn(0), 0.1) == [(A0, Wanted())]
    assert turns.next_deadline == 1.1, "its term begins now"


@pytest.mark.parametrize("seed", range(20))
def test_gangs_in_lock_step_never_wait_for_each_other(seed: int) -> None:
    """Workers in any order of events: everybody makes its steps, and no wait reaches its bound.

    A worker goes on from its collective only when all of its gang are in it.
    """
    chance = random.Random(seed)
    names, size, cycles = ("a", "b", "c"), chance.choice((2, 3, 4)), 60
    workers = [worker(name, number) for name in names for number in range(size)]
    turns, now = gangs(*workers), 0.0
    state = dict.fromkeys(workers, "before")
    steps = dict.fromkeys(workers, 0)
    members = tuple(range(size))
    while min(steps.values()) < cycles:
        now += 1e-4
        movable = [one for one in workers if state[one] != "waits" and steps[one] < cycles]
        movable = [one for one in movable if state[one] != "meets" or _met(one, state, steps)]
        assert movable, "nobody can move: they wait for each other"
        one = chance.choice(movable)
        told: list[Told] = []
        if state[one] == "before":
            state[one] = "waits"
            told = turns.asked(one, Turn(1, members, members, BOTH, 5.0, 1.0), now)
        elif state[one] == "computes":
            state[one] = "meets"
            told = turns.given_back(one, ("gpu",), now)
        else:
            state[one], steps[one] = "before", steps[one] + 1
            told = turns.given_back(one, ("network",), now)
        for other, answer in granted(told):
            assert state[other] == "waits"
            assert not answer.breach
            state[other] = "computes"
    assert turns.table.breaches == {}


def _met(one: Worker, state: dict[Worker, str], steps: dict[Worker, int]) -> bool:
    """Whether all of its gang have come as far."""
    peers = [other for other in state if other.gang == one.gang]
    return all(steps[p] > steps[one] or state[p] == "meets" for p in peers)
