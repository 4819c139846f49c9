"""Turns are exclusive, in order and bounded, whatever members do."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from weft.agent.leases.table import Ask, Lease, LeaseTable, Resource
from weft.model.errors import ProtocolError

GPU, STORAGE = Resource("gpu-0", "gpu"), Resource("gpu-0", "storage")
OTHER = Resource("gpu-1", "gpu")


def asked(table: LeaseTable, member: str, *resources: Resource, at: float = 0.0) -> list[Lease]:
    return table.ask(Ask(member, frozenset(resources), at, bound_seconds=1.0))


def members(leases: list[Lease]) -> list[str]:
    return [lease.member for lease in leases]


def test_one_at_a_time_in_order_of_asking() -> None:
    table = LeaseTable()
    assert members(asked(table, "a", GPU)) == ["a"]
    assert asked(table, "b", GPU) == []
    assert asked(table, "c", GPU) == []
    (next_one,) = table.done("a", frozenset({GPU}), 0.4)
    assert (next_one.member, next_one.waited_seconds, next_one.breach) == ("b", 0.4, False)
    assert members(table.done("b", frozenset({GPU}), 0.5)) == ["c"]


def test_stages_of_different_resources_run_side_by_side() -> None:
    table = LeaseTable()
    assert members(asked(table, "a", GPU)) == ["a"]
    assert members(asked(table, "b", STORAGE)) == ["b"]


def test_two_gangs_get_all_or_nothing() -> None:
    table = LeaseTable()
    assert members(asked(table, "a", GPU, OTHER)) == ["a"]
    assert asked(table, "b", OTHER, GPU) == []
    assert table.holder(OTHER) == "a"
    assert members(table.done("a", frozenset({GPU, OTHER}), 0.1)) == ["b"]


def test_a_gang_that_waits_is_not_passed_for_ever() -> None:
    """Who needs one GPU does not take it from a gang that waits for two."""
    table = LeaseTable()
    asked(table, "a", GPU)
    assert asked(table, "gang", GPU, OTHER) == []
    assert asked(table, "c", OTHER) == []
    assert members(table.done("a", frozenset({GPU}), 0.1)) == ["gang"]
    assert members(table.done("gang", frozenset({GPU, OTHER}), 0.2)) == ["c"]


def test_after_its_bound_a_stage_runs_anyway_and_the_breach_is_counted() -> None:
    table = LeaseTable()
    asked(table, "hangs", GPU)
    asked(table, "waits", GPU)
    assert table.next_deadline == 1.0
    assert table.overdue(0.9) == []
    (lease,) = table.overdue(1.0)
    assert (lease.member, lease.breach, lease.waited_seconds) == ("waits", True, 1.0)
    assert table.breaches == {"hangs": 1}
    assert table.holder(GPU) == "waits", "nobody waits for the first one again"


def test_a_dead_member_lets_go() -> None:
    table = LeaseTable()
    asked(table, "dies", GPU, STORAGE)
    asked(table, "b", GPU)
    asked(table, "c", STORAGE)
    assert members(table.gone("dies", 0.1)) == ["b", "c"]


def test_one_who_dies_while_it_waits_holds_nobody_up() -> None:
    table = LeaseTable()
    asked(table, "a", GPU)
    asked(table, "dies", GPU, OTHER)
    asked(table, "c", OTHER)
    assert members(table.gone("dies", 0.1)) == ["c"]


def test_a_second_stage_at_once_is_a_defect_of_the_asker() -> None:
    table = LeaseTable()
    asked(table, "a", GPU)
    asked(table, "b", GPU)
    with pytest.raises(ProtocolError, match="second stage"):
        asked(table, "b", STORAGE)
    with pytest.raises(ProtocolError, match="below 0"):
        table.ask(Ask("c", frozenset({OTHER}), 0.0, -1.0))


def test_what_is_given_back_twice_was_given_back() -> None:
    table = LeaseTable()
    asked(table, "a", GPU)
    table.done("a", frozenset({GPU}), 0.1)
    assert table.done("a", frozenset({GPU}), 0.2) == []
    assert table.holder(GPU) is None


class Turns(RuleBasedStateMachine):
    """Members that ask, finish, die and hang in any order; leases are right all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.table = LeaseTable()
        self.now = 0.0
        self.holds: dict[str, Lease] = {}
        self.passed: set[str] = set()  # who has lost what it believes to have
        self.asked_at: dict[str, float] = {}
        self.wants: dict[str, frozenset[Resource]] = {}

    def take(self, leases: list[Lease]) -> None:
        for lease in leases:
            assert lease.waited_seconds <= 1.0 + 1e-9, "bounded"
            others = [m for m, o in self.holds.items() if o.resources & lease.resources]
            assert not others or lease.breach or self.passed & set(others), "exclusive"
            self.passed |= set(others)
            now = {other.member for other in leases}
            assert all(self.table.holder(one) in now for one in lease.resources)
            self.holds[lease.member] = lease
            del self.asked_at[lease.member]

    @rule(
        member=st.sampled_from("abcdef"),
        resources=st.frozensets(st.sampled_from([GPU, STORAGE, OTHER]), min_size=1),
    )
    def ask(self, member: str, resources: frozenset[Resource]) -> None:
        if member not in self.holds and member not in self.asked_at:
            self.asked_at[member], self.wants[member] = self.now, resources
            self.take(self.table.ask(Ask(member, resources, self.now, 1.0)))

    @precondition(lambda self: self.holds)
    @rule(pick=st.integers(0, 5), dies=st.booleans())
    def end(self, pick: int, dies: bool) -> None:
        member = sorted(self.holds)[pick % len(self.holds)]
        lease = self.holds.pop(member)
        self.passed.discard(member)
        if dies:
            self.take(self.table.gone(member, self.now))
        else:
            self.take(self.table.done(member, lease.resources, self.now))

    @rule(seconds=st.floats(0.0, 3.0))
    def time_passes(self, seconds: float) -> None:
        until = self.now + seconds
        while (due := self.table.next_deadline) is not None and due <= until:
            self.now = max(self.now, due)
            self.take(self.table.overdue(self.now))
        self.now = until

    @invariant()
    def nobody_waits_beyond_its_bound(self) -> None:
        assert all(self.now - at <= 1.0 + 1e-9 for at in self.asked_at.values())
        assert sorted(self.table.waiting) == sorted(self.asked_at)

    @invariant()
    def nobody_waits_for_what_is_free(self) -> None:
        if self.table.waiting:
            first = self.wants[self.table.waiting[0]]
            assert any(self.table.holder(one) for one in first), "the first waits for somebody"


TestTurns = Turns.TestCase
TestTurns.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@given(st.integers(2, 6), st.integers(1, 200))
@settings(max_examples=20, deadline=None)
def test_turns_come_round(count: int, cycles: int) -> None:
    """Members that give back and ask again get the resource equally often."""
    table, turns = LeaseTable(), dict.fromkeys(map(str, range(count)), 0)
    holder = next(iter(turns))
    for member in turns:
        asked(table, member, GPU)
    for _ in range(cycles):
        turns[holder] += 1
        (lease,) = table.done(holder, frozenset({GPU}), 0.0)
        asked(table, holder, GPU)
        holder = lease.member
    assert max(turns.values()) - min(turns.values()) <= 1


def term(table: LeaseTable, member: str, at: float, seconds: float) -> list[Lease]:
    return table.ask(Ask(member, frozenset({GPU}), at, 60.0, seconds))


def test_a_lease_is_lost_to_those_who_wait_when_its_term_is_over() -> None:
    table = LeaseTable()
    term(table, "slow", 0.0, 0.3)
    assert table.overdue(5.0) == []
    assert table.holder(GPU) == "slow", "nobody waits for it"
    assert table.take_wanted() == []
    term(table, "next", 5.0, 0.3)
    assert table.take_wanted() == ["slow"]
    assert table.next_deadline == 5.3
    assert table.overdue(5.2) == []
    (lease,) = table.overdue(5.3)
    assert (lease.member, lease.breach) == ("next", True)
    assert table.breaches == {"slow": 1}
    assert table.done("slow", frozenset({GPU}), 5.4) == []
    assert table.holder(GPU) == "next", "what it has lost is not its own to give"


def test_who_never_gives_back_is_waited_for_less_each_time() -> None:
    table, now, waited = LeaseTable(), 0.0, 0.0
    for _ in range(40):
        term(table, "hog", now, 1.0)
        assert term(table, "good", now, 1.0) == []
        due = table.next_deadline
        assert due is not None
        waited += due - now
        now = due
        assert members(table.overdue(now)) == ["good"]
        table.done("good", frozenset({GPU}), now)
    assert waited < 2.0 + 1e-6
    term(table, "hog", now, 1.0)
    table.done("hog", frozenset({GPU}), now)
    term(table, "hog", now, 1.0)
    term(table, "good", now, 1.0)
    assert table.next_deadline == pytest.approx(now + 1.0), "it is believed again"


def test_who_gives_back_late_is_waited_for_as_long_the_next_time() -> None:
    """One that a busy machine held up ten times is in time again when the machine lets it."""
    table, now = LeaseTable(), 0.0
    for _ in range(10):
        term(table, "late", now, 1.0)
        term(table, "good", now, 1.0)
        assert members(table.overdue(now + 1.0)) == ["good"]
        table.done("late", frozenset({GPU}), now + 1.1)
        table.done("good", frozenset({GPU}), now + 1.2)
        now += 2.0
    term(table, "late", now, 1.0)
    term(table, "good", now, 1.0)
    assert table.next_deadline == pytest.approx(now + 1.0)


def test_who_asks_for_another_stage_has_given_back_the_one_before() -> None:
    table = LeaseTable()
    asked(table, "a", GPU)
    asked(table, "b", GPU)
    assert members(asked(table, "a", STORAGE)) == ["b", "a"]


def test_two_whose_bound_is_over_at_once_do_not_blame_each_other() -> None:
    table = LeaseTable()
    asked(table, "hangs", GPU)
    asked(table, "b", GPU)
    asked(table, "c", GPU)
    assert members(table.overdue(1.0)) == ["b", "c"]
    assert table.breaches == {"hangs": 1}


def test_what_one_has_lost_is_all_free() -> None:
    table = LeaseTable()
    asked(table, "hangs", GPU, STORAGE)
    asked(table, "b", GPU)
    asked(table, "c", STORAGE, at=0.5)
    assert members(table.overdue(1.0)) == ["b", "c"]


def test_one_that_waits_no_more_holds_nobody_up() -> None:
    table = LeaseTable()
    asked(table, "a", GPU)
    asked(table, "gang", GPU, OTHER)
    asked(table, "c", OTHER)
    assert members(table.withdraw("gang", 0.1)) == ["c"]
