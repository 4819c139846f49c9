"""Defences against failures that come again, each left out once; the worlds must notice."""

from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

from tests.sim.mutants import mutant
from weft.brain.event import HealthRecalled, NodeChecked, Past
from weft.brain.protocol.care import Care
from weft.brain.protocol.holding import Holding
from weft.brain.round.holds import Holds
from weft.brain.round.kinder import unkind_nodes
from weft.brain.round.session import Session
from weft.brain.state.brain_state import BrainState
from weft.brain.state.failure_book import FailureBook
from weft.brain.state.node_table import NodeTable
from weft.failure import breaker as breaker_module
from weft.failure import health as health_module
from weft.failure import retry as retry_module
from weft.failure.blame import Case, Quarantine
from weft.failure.breaker import Breaker, Strike
from weft.failure.retry import RetryState
from weft.model.kind import Kind
from weft.model.snapshot import Bools
from weft.perf import neighbours as neighbours_module
from weft.policy.place.fabric import Fabric
from weft.policy.place.packing import Offer


@mutant
def an_open_breaker_holds_nobody() -> Iterator[None]:
    with patch.object(Care, "hold", lambda self, slot: None):
        yield


@mutant
def a_breaker_never_opens() -> Iterator[None]:
    def kept(breaker: Breaker, one: Strike) -> Breaker:
        return replace(breaker, strikes=(*breaker.strikes, one))

    with patch.object(breaker_module, "strike", kept):
        yield


@mutant
def any_number_of_nodes_is_set_aside() -> Iterator[None]:
    def all_of_them(cases: list[Case], pool: object, already: set[str]) -> Quarantine:
        bad = (one.node for one in cases if one.action >= 2 and one.node not in already)
        return Quarantine(tuple(bad), ())

    with patch.object(health_module, "quarantined", all_of_them):
        yield


@mutant
def nodes_that_are_set_aside_are_offered() -> Iterator[None]:
    with patch.object(NodeTable, "set_aside", lambda self, nodes: None):
        yield


@mutant
def a_node_comes_back_whatever_its_check_says() -> Iterator[None]:
    checked = Care.checked

    def kind_hearted(self: Care, event: NodeChecked) -> None:
        checked(self, replace(event, passed=True))

    with patch.object(Care, "checked", kind_hearted):
        yield


@mutant
def what_only_the_owner_can_cure_is_tried_again() -> Iterator[None]:
    with patch.object(retry_module, "_CLASS_ENDS", {}):
        yield


@mutant
def the_same_failure_is_tried_again_without_end() -> Iterator[None]:
    with (
        patch.object(retry_module, "_ended_by_repetition", lambda *_: ""),
        patch.object(retry_module, "_ended_by_class", lambda *_: ""),
    ):
        yield


@mutant
def a_new_brain_does_not_hear_of_nodes_and_services() -> Iterator[None]:
    def deaf(self: Care, event: HealthRecalled) -> None:
        return

    with patch.object(Care, "recalled", deaf):
        yield


@mutant
def a_new_brain_does_not_hear_of_retries() -> Iterator[None]:
    recall = BrainState.recall

    def without(self: BrainState, slot: int, past: Past, now: float) -> None:
        recall(self, slot, replace(past, retry=None), now)

    with patch.object(BrainState, "recall", without):
        yield


@mutant
def what_is_on_record_may_be_of_the_future() -> Iterator[None]:
    with patch.object(health_module, "as_of", lambda health, _: health):
        yield


@mutant
def tries_may_have_been_made_in_the_future() -> Iterator[None]:
    with patch.object(RetryState, "as_of", lambda self, _: self):
        yield


@mutant
def copies_share_what_they_know_of_failures() -> Iterator[None]:
    with patch.object(FailureBook, "copied", lambda self: self):
        yield


@mutant
def nodes_that_failed_a_job_are_offered_to_it() -> Iterator[None]:
    suiting = Fabric.suiting

    def anywhere(self: Fabric, kind: Kind) -> Bools | None:
        return suiting(self, replace(kind, avoid=frozenset()))

    with patch.object(Fabric, "suiting", anywhere):
        yield


@mutant
def seats_of_gangs_that_failed_are_given_away() -> Iterator[None]:
    with patch.object(Holds, "_left_of", lambda self, slot, hold: ()):
        yield


@mutant
def seats_are_kept_without_end() -> Iterator[None]:
    with patch.object(Holding, "expire", lambda self: None):
        yield


@mutant
def jobs_wait_for_kinder_neighbours() -> Iterator[None]:
    def picky(
        self: Session, slot: int, kind: Kind, offer: Offer, *, width: int, avoid: Bools | None
    ) -> Offer | None:
        unkind = unkind_nodes(self.state, slot, width, self.now)
        bad = unkind is not None and any(unkind[node] for node, _ in offer.shares)
        return None if bad else offer

    with patch.object(Session, "_kinder", picky):
        yield


@mutant
def what_is_learnt_of_neighbours_has_no_bound() -> Iterator[None]:
    with patch.object(neighbours_module, "MOST_SLOWER", 1e9):
        yield
