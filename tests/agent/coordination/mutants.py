"""Mutants: the protocol with one of its defences taken out, on the agent's side or the worker's.

Each is a context manager that patches one of the two machines and puts everything back. Random
histories (`tests.agent.coordination.histories`) must find every one of them by a promise that is
broken.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from weft.agent.coordination.coordinator import Coordinator
from weft.agent.coordination.doubt import Doubt, Verdict
from weft.agent.coordination.epochs import Epochs, Phase
from weft.agent.coordination.heirs import Inherited, Succession
from weft.agent.coordination.roster import Roster
from weft.agent.messages import (
    NOWHERE,
    STATELESS,
    Arm,
    Broken,
    Built,
    Drain,
    Members,
    Message,
    Prepare,
    Regroup,
    Standby,
)
from weft.train.gradients.flag import Flag
from weft.train.membership.protocol import Border, Part, Say, WorkerAction

Mutant = Callable[[], AbstractContextManager[None]]
MUTANTS: dict[str, Mutant] = {}


def mutant(make: Callable[[], Iterator[None]]) -> Mutant:
    made = contextmanager(make)
    MUTANTS[make.__name__] = made
    return made


def deaf(to: type[Message]) -> AbstractContextManager[object]:
    """A worker that does not hear one kind of message."""
    heard = Part.heard

    def mostly(self: Part, message: Message) -> list[WorkerAction]:
        return [] if isinstance(message, to) else heard(self, message)

    return patch.object(Part, "heard", mostly)


def mute(kind: type[Message]) -> AbstractContextManager[object]:
    """An agent that does not say one kind of message."""
    tell = Roster.tell

    def mostly(self: Roster, numbers: Iterable[int], message: Message) -> None:
        if not isinstance(message, kind):
            tell(self, numbers, message)

    return patch.object(Roster, "tell", mostly)


# --- the worker's side ----------------------------------------------------------------------------


@mutant
def a_step_in_hand_is_never_applied() -> Iterator[None]:
    with patch.object(Part, "must_apply", lambda *_: False):
        yield


@mutant
def a_step_in_hand_is_applied_whether_it_counts_or_not() -> Iterator[None]:
    def eager(self: Part, order: Regroup, pending: int) -> bool:
        return self.committed < pending

    with patch.object(Part, "must_apply", eager):
        yield


@mutant
def old_orders_are_followed_after_a_failure() -> Iterator[None]:
    def ask(self: Part, pending: int, why: str, *, yielded: bool = False) -> WorkerAction:
        return Say(Broken(self.epoch, self.committed, pending, why, yielded))

    with patch.object(Part, "ask", ask):
        yield


@mutant
def newcomers_bring_samples_before_they_have_the_state() -> Iterator[None]:
    with patch.object(Part, "sharers", property(lambda self: self.members)):
        yield


@mutant
def nobody_tells_of_the_first_step() -> Iterator[None]:
    commit = Part.commit

    def quiet(self: Part, paused_seconds: float = 0.0) -> list[WorkerAction]:
        commit(self, paused_seconds)
        return []

    with patch.object(Part, "commit", quiet):
        yield


@mutant
def a_step_is_not_counted() -> Iterator[None]:
    commit = Part.commit

    def forgetful(self: Part, paused_seconds: float = 0.0) -> list[WorkerAction]:
        before = self.committed
        actions = commit(self, paused_seconds)
        self.committed = before if before % 7 == 5 else self.committed
        return actions

    with patch.object(Part, "commit", forgetful):
        yield


@mutant
def a_newcomer_without_the_state_counts_steps() -> Iterator[None]:
    commit = Part.commit

    def early(self: Part, paused_seconds: float = 0.0) -> list[WorkerAction]:
        if self.committed == STATELESS:
            self.committed = NOWHERE
        return commit(self, paused_seconds)

    with patch.object(Part, "commit", early):
        yield


@mutant
def a_newcomer_takes_the_state_for_one_of_a_later_step() -> Iterator[None]:
    def received(self: Part, step: int) -> None:
        self.committed = step + 1

    with patch.object(Part, "received", received):
        yield


@mutant
def a_drain_is_not_agreed_on() -> Iterator[None]:
    """Each leaves when it has heard of it, not when all have."""
    border = Part.border

    def alone(self: Part, seen: frozenset[Flag]) -> Border:
        mine = frozenset({Flag.DRAIN} if self.drain else ())
        return border(self, seen - {Flag.DRAIN} | mine)

    with patch.object(Part, "border", alone):
        yield


@mutant
def a_drain_is_overheard() -> Iterator[None]:
    with deaf(Drain):
        yield


@mutant
def a_switch_is_not_agreed_on() -> Iterator[None]:
    border = Part.border

    def alone(self: Part, seen: frozenset[Flag]) -> Border:
        mine = frozenset({Flag.ARMED} if self.is_armed else ())
        return border(self, seen - {Flag.ARMED} | mine)

    with patch.object(Part, "border", alone):
        yield


@mutant
def one_switches_when_it_has_built() -> Iterator[None]:
    with patch.object(Part, "is_armed", property(lambda self: self.prepared is not None)):
        yield


@mutant
def one_that_is_to_leave_stays() -> Iterator[None]:
    border = Part.border

    def stay(self: Part, seen: frozenset[Flag]) -> Border:
        found = border(self, seen)
        return Border.SWITCH if found is Border.LEAVE else found

    with patch.object(Part, "border", stay):
        yield


@mutant
def what_could_not_be_built_is_said_to_stand() -> Iterator[None]:
    with patch.object(Part, "built", lambda self, epoch, failure="": Say(Built(epoch))):
        yield


@mutant
def a_standby_is_overheard() -> Iterator[None]:
    with deaf(Standby):
        yield


@mutant
def an_epoch_is_entered_with_the_members_of_the_last() -> Iterator[None]:
    def regroup(self: Part, order: Regroup) -> None:
        self._enter(order.epoch, self.members, ())

    with patch.object(Part, "regroup", regroup):
        yield


@mutant
def an_epoch_that_begins_anew_keeps_its_old_step() -> Iterator[None]:
    def begin(self: Part, order: Regroup) -> None:
        self.committed = max(self.committed, NOWHERE)
        self.joiners = ()

    with patch.object(Part, "begin", begin):
        yield


@mutant
def a_switch_keeps_the_members_of_the_last() -> Iterator[None]:
    def switch(self: Part) -> Prepare:
        order, self.prepared = self.prepared, None
        assert order is not None
        self._enter(order.epoch, self.members, order.joiners)
        return order

    with patch.object(Part, "switch", switch):
        yield


@mutant
def newcomers_are_not_told_apart() -> Iterator[None]:
    def switch(self: Part) -> Prepare:
        order, self.prepared = self.prepared, None
        assert order is not None
        self._enter(order.epoch, order.members, ())
        return order

    with patch.object(Part, "switch", switch):
        yield


@mutant
def a_step_is_counted_twice() -> Iterator[None]:
    commit = Part.commit

    def twice(self: Part, paused_seconds: float = 0.0) -> list[WorkerAction]:
        return [*commit(self, paused_seconds), *commit(self, paused_seconds)]

    with patch.object(Part, "commit", twice):
        yield


# --- the agent's side -----------------------------------------------------------------------------


@mutant
def the_least_that_anyone_has_applied_counts() -> Iterator[None]:
    verdict = Doubt.verdict

    def low(self: Doubt, roster: Roster, departed: Iterable[int]) -> Verdict:
        found = verdict(self, roster, departed)
        told = [self.answers[n].committed for n in found.holders]
        return Verdict(min(told, default=found.committed), found.holders, found.others, found.blank)

    with patch.object(Doubt, "verdict", low):
        yield


@mutant
def all_who_answer_go_on() -> Iterator[None]:
    verdict = Doubt.verdict

    def all_of_them(self: Doubt, roster: Roster, departed: Iterable[int]) -> Verdict:
        found = verdict(self, roster, departed)
        if not found.holders:
            return found
        return Verdict(found.committed, (*found.holders, *found.others), ())

    with patch.object(Doubt, "verdict", all_of_them):
        yield


@mutant
def not_all_answers_are_waited_for() -> Iterator[None]:
    unanswered = Doubt.unanswered

    def some(self: Doubt, roster: Roster) -> tuple[int, ...]:
        return () if self.answers else unanswered(self, roster)

    def verdict(self: Doubt, roster: Roster, departed: Iterable[int]) -> Verdict:
        self.participants = tuple(n for n in self.participants if n in self.answers)
        return judge(self, roster, departed)

    judge = Doubt.verdict
    with patch.object(Doubt, "unanswered", some), patch.object(Doubt, "verdict", verdict):
        yield


@mutant
def an_epoch_is_armed_when_one_has_built_it() -> Iterator[None]:
    built = Epochs.built

    def eager(self: Epochs, number: int, epoch: int, now: float) -> None:
        change = self.being_built(epoch)
        if change is not None:
            change.built.update((*self.members, *change.members))
        built(self, number, epoch, now)

    with patch.object(Epochs, "built", eager):
        yield


@mutant
def an_epoch_number_is_used_again() -> Iterator[None]:
    begin = Epochs.begin

    def again(self: Epochs, *rest: Any) -> None:
        self.latest = max(self.latest - 1, 0)
        begin(self, *rest)

    with patch.object(Epochs, "begin", again):
        yield


@mutant
def a_replica_need_not_be_whole() -> Iterator[None]:
    with patch.object(Roster, "whole_units", lambda self, numbers: numbers):
        yield


@mutant
def who_is_to_leave_may_stay() -> Iterator[None]:
    approach = Coordinator._approach

    def forgetful(self: Coordinator) -> None:
        unwanted, self.unwanted = self.unwanted, frozenset()
        approach(self)
        self.unwanted = unwanted

    with patch.object(Coordinator, "_approach", forgetful):
        yield


@mutant
def nobody_is_told_to_stand_by() -> Iterator[None]:
    with mute(Standby):
        yield


@mutant
def nobody_is_told_that_an_epoch_is_armed() -> Iterator[None]:
    with mute(Arm):
        yield


@mutant
def nobody_is_told_where_to_go_on() -> Iterator[None]:
    with mute(Regroup):
        yield


@mutant
def one_that_has_stopped_is_waited_for() -> Iterator[None]:
    with (
        patch.object(Doubt, "silent", lambda *_: []),
        patch.object(Coordinator, "_has_stopped", lambda *_: False),
    ):
        yield


@mutant
def one_that_is_alone_may_stop() -> Iterator[None]:
    with patch.object(Coordinator, "_has_stopped", lambda *_: False):
        yield


@mutant
def all_begin_again_one_step_too_far() -> Iterator[None]:
    begin = Epochs.begin

    def further(
        self: Epochs, members: Members, donors: Members, committed: int, *rest: Any
    ) -> None:
        begin(self, members, donors, committed + 1, *rest)

    with patch.object(Epochs, "begin", further):
        yield


@mutant
def the_lost_are_forgotten() -> Iterator[None]:
    """Nobody asks the others how far they are, and what they say of themselves is not heard."""
    with (
        patch.object(Coordinator, "_lost", lambda *_: None),
        patch.object(Epochs, "broken", lambda *_: None),
    ):
        yield


@mutant
def an_order_is_not_heard() -> Iterator[None]:
    with patch.object(Coordinator, "resize", lambda *_: []):
        yield


@mutant
def nobody_is_told_to_drain() -> Iterator[None]:
    with mute(Drain):
        yield


@mutant
def nobody_is_told_what_to_build() -> Iterator[None]:
    with mute(Prepare):
        yield


@mutant
def what_was_built_before_counts_for_what_is_built_now() -> Iterator[None]:
    built = Epochs.built

    def any_epoch(self: Epochs, number: int, epoch: int, now: float) -> None:
        change = self.change if self.phase is Phase.BUILDING else None
        built(self, number, change.epoch if change else epoch, now)

    with patch.object(Epochs, "built", any_epoch):
        yield


@mutant
def the_last_step_of_all_is_taken_back() -> Iterator[None]:
    verdict = Doubt.verdict

    def back(self: Doubt, roster: Roster, departed: Iterable[int]) -> Verdict:
        found = verdict(self, roster, departed)
        return Verdict(max(found.committed - 1, NOWHERE), found.holders, found.others, found.blank)

    with patch.object(Doubt, "verdict", back):
        yield


# ------------------------------------------------------------------------------ another head leads


@mutant
def a_new_head_takes_every_epoch_as_it_is() -> Iterator[None]:
    inherited = Succession.inherited

    def intact(self: Succession, now: float) -> Inherited:
        return replace(inherited(self, now), intact=True)

    with patch.object(Succession, "inherited", intact):
        yield


@mutant
def a_new_head_counts_epochs_from_the_beginning() -> Iterator[None]:
    inherit = Epochs.inherit

    def anew(self: Epochs, epoch: int, latest: int, members: Members) -> None:
        inherit(self, epoch, 0, members)

    with patch.object(Epochs, "inherit", anew):
        yield


@mutant
def what_was_asked_of_the_head_before_is_not_asked_again() -> Iterator[None]:
    move = Part.move

    def quiet(self: Part) -> list[WorkerAction]:
        self.asking = None
        return move(self)

    with patch.object(Part, "move", quiet):
        yield


@mutant
def orders_of_the_head_before_are_followed() -> Iterator[None]:
    move = Part.move

    def faithful(self: Part) -> list[WorkerAction]:
        orders = list(self._orders)
        actions = move(self)
        self._orders.extend(orders)
        return actions

    with patch.object(Part, "move", faithful):
        yield


@mutant
def a_member_that_is_silent_to_a_new_head_is_waited_for() -> Iterator[None]:
    inherited = Succession.inherited

    def patient(self: Succession, now: float) -> Inherited:
        return replace(inherited(self, now), silent=())

    with patch.object(Succession, "inherited", patient):
        yield
