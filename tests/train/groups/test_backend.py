"""Who sums what by which backend; and one that behaves as NCCL does, because no GPU is here."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
import torch

from tests.train.dawdling import DAWDLING, Dawdling, Later
from tests.train.groups.test_group import LIMIT, Telling
from tests.waiting import HANG_SECONDS, until
from weft.model.errors import SpecError, WorldError
from weft.train.groups import backend
from weft.train.groups import group as group_module
from weft.train.groups.backend import GLOO, NCCL, for_data, inside
from weft.train.groups.flight import Event, Flight
from weft.train.groups.group import BackendGroup, EpochGroups, build
from weft.train.groups.managed import ManagedGroup
from weft.train.membership.contact import Contact

pytestmark = pytest.mark.enable_socket


def test_one_place_chooses_by_the_device() -> None:
    assert for_data(torch.device("cpu")) is GLOO
    assert for_data(torch.device("cuda:1")) is NCCL
    assert inside(torch.device("cpu")) == "gloo"
    assert inside(torch.device("cuda", 0)) == "cpu:gloo,cuda:nccl"
    with pytest.raises(SpecError, match="no way to sum gradients on 'meta'"):
        for_data(torch.device("meta"))


@contextmanager
def epoch(
    monkeypatch: pytest.MonkeyPatch, programs: tuple[int, int] = (0, 0)
) -> Iterator[tuple[EpochGroups, EpochGroups]]:
    """Both members of one, as if they were on devices."""
    monkeypatch.setitem(backend.BY_DEVICE, "cpu", DAWDLING)
    stores: dict[str, Telling] = {}
    monkeypatch.setattr(
        group_module, "AgentStore", lambda _, prefix, __: stores.setdefault(prefix, Telling())
    )

    def member(worker: int) -> EpochGroups:
        contact = Contact("", "job", 1, worker, "", Path())
        seconds, device, program = LIMIT.total_seconds(), torch.device("cpu"), programs[worker]
        return build(contact, 1, (0, 1), seconds, device, program=program)

    with ThreadPoolExecutor() as threads:
        ends = list(threads.map(member, range(2)))
    try:
        yield ends[0], ends[1]
    finally:
        for end in ends:
            end.cut()
            end.close()
        group_module._lingering.clear()


def test_members_of_another_program_are_refused_while_the_groups_are_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The members have not left their present epoch yet, and train on in it."""
    for programs in ((5, 5), (5, 0)):
        with epoch(monkeypatch, programs) as ends:
            assert [end.nodes for end in ends] == [(0, 0), (0, 0)]
    with (
        pytest.raises(WorldError, match="of worker 1 is not that of worker 0"),
        epoch(monkeypatch, (5, 6)),
    ):
        pass
    group_module._lingering.clear()


def data(end: EpochGroups) -> Dawdling:
    assert isinstance(end.gradients, BackendGroup)
    return cast(Dawdling, end.gradients._backend)


def test_gradients_and_votes_go_separate_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    with epoch(monkeypatch) as ends:
        assert all(isinstance(data(end), Dawdling) for end in ends)
        assert all(end.votes is not end.gradients for end in ends)
        assert all(data(end).connected for end in ends), "the first sum would have to meet first"
        with ThreadPoolExecutor() as threads:
            assert list(threads.map(lambda end: end.votes.all_true(True), ends)) == [True, True]
        with pytest.raises(WorldError, match="no tensors on a device"):
            ends[0].gradients.all_true(True)


def test_a_wait_ends_when_the_sum_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a step would be voted for whose gradients are not those of all."""
    with epoch(monkeypatch) as ends:
        tensors = [torch.full((3,), float(rank + 1)) for rank in range(2)]
        flights = [end.gradients.sum(one) for end, one in zip(ends, tensors, strict=True)]
        for flight in flights:
            flight.wait()
        assert all(tensor.tolist() == [3.0, 3.0, 3.0] for tensor in tensors)


def test_a_wait_for_one_who_does_not_come_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    with epoch(monkeypatch) as (here, _):
        flight = here.gradients.sum(torch.ones(4))
        with ThreadPoolExecutor() as threads:
            waiting = threads.submit(flight.wait)
            until(waiting.running, "a thread to wait")
            here.cut()
            assert isinstance(waiting.exception(HANG_SECONDS), WorldError)
        assert data(here).aborted


@pytest.fixture
def unfinished() -> Iterator[Callable[[], object]]:
    """A latency that lasts to the end of the test, so that only an abort completes a sum."""
    over = threading.Event()
    yield lambda: over.wait(HANG_SECONDS)
    over.set()


def summed_and_voted(end: EpochGroups) -> list[float]:
    """What a session does with a gradient; the sum that it has voted for."""
    tensor = torch.ones(3)
    end.gradients.sum(tensor).wait()
    end.check_sums()
    assert end.votes.all_true(True)
    return tensor.tolist()


@pytest.mark.parametrize("hook", ["before_abort", "after_abort"])
def test_no_member_votes_for_sums_that_an_abort_completed(
    monkeypatch: pytest.MonkeyPatch, unfinished: Callable[[], object], hook: str
) -> None:
    """Both members are halted in a sum; each abort lasts until both have voted or given up."""
    with epoch(monkeypatch) as ends, ThreadPoolExecutor(4) as threads:
        monkeypatch.setattr(Dawdling, "latency", staticmethod(unfinished))
        steps: list[Future[list[float]]] = []
        for end in ends:
            setattr(data(end), hook, lambda: wait(steps, HANG_SECONDS))
        steps += [threads.submit(summed_and_voted, end) for end in ends]
        until(lambda: all(data(end).busy for end in ends), "both sums to be under way")
        for cut in [threads.submit(end.cut) for end in ends]:
            cut.result(HANG_SECONDS)
        assert all(isinstance(step.exception(0), WorldError) for step in steps)


def test_sums_of_a_group_that_is_cut_before_the_vote_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with epoch(monkeypatch) as (here, there):
        tensors = [torch.ones(2), torch.ones(2)]
        flights = [end.gradients.sum(one) for end, one in zip((here, there), tensors, strict=True)]
        for flight in flights:
            flight.wait()
        here.gradients.cut()
        with pytest.raises(WorldError, match="cut before the vote"):
            here.check_sums()
        there.check_sums()
        there.gradients.close()
        with pytest.raises(WorldError, match="cut before the vote"):
            there.check_sums()


def test_ddp_keeps_the_failure_of_a_sum_that_an_abort_completed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DDP itself goes on with the unsummed tensor, because its future is completed too."""
    with epoch(monkeypatch) as (here, _), ThreadPoolExecutor() as threads:
        managed = ManagedGroup(here.gradients, lambda _: None)
        managed.open()
        work = managed.allreduce([torch.ones(4)])
        waiting = threads.submit(managed.wait)
        data(here).after_abort = lambda: wait([waiting], HANG_SECONDS)
        here.cut()
        assert work.wait()
        waiting.result(HANG_SECONDS)
        assert isinstance(managed.failure, WorldError)


class Aborted:
    """A message of gloo's that was aborted: its end is no error."""

    def wait(self) -> bool:
        return False


def test_a_message_that_was_aborted_was_not_received() -> None:
    """Its tensor holds whatever was there before."""
    with pytest.raises(WorldError, match="aborted"):
        Flight(Aborted(), lambda _: None, None).wait()


class Failing:
    """A work of a device that has failed: asking for its end raises."""

    def is_completed(self) -> bool:
        raise RuntimeError("the device has failed")


def test_a_device_that_fails_is_an_error_of_the_group() -> None:
    """And the flight lets go of its work, or the group could not be closed."""
    ended: list[Flight] = []
    flight = Flight(Failing(), ended.append, Event(Failing(), lambda: False))
    with pytest.raises(WorldError, match="the device has failed"):
        flight.wait()
    assert ended == [flight]


def test_nothing_is_begun_on_what_was_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The halt comes while the script computes: its next sum would be waited for without end."""
    with epoch(monkeypatch) as (here, _):
        here.cut()
        with pytest.raises(WorldError, match="cut"):
            here.gradients.sum(torch.ones(4))


def test_what_begins_while_it_is_cut_is_freed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with epoch(monkeypatch) as (here, _):
        begin = Dawdling.allreduce

        def cut_meanwhile(group: Dawdling, tensors: list[torch.Tensor]) -> Later:
            later = begin(group, tensors)
            here.cut()
            return later

        monkeypatch.setattr(Dawdling, "allreduce", cut_meanwhile)
        flight = here.gradients.sum(torch.ones(4))
        with ThreadPoolExecutor() as threads:
            assert isinstance(threads.submit(flight.wait).exception(HANG_SECONDS), WorldError)


def test_it_would_be_noticed_if_nobody_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in is late indeed: what its own `wait` leaves is not the sum."""
    due = threading.Event()
    with epoch(monkeypatch) as ends:
        until(lambda: not any(data(end).busy for end in ends), "the sums of the connections")
        monkeypatch.setattr(Dawdling, "latency", staticmethod(lambda: due.wait(HANG_SECONDS)))
        tensors = [torch.ones(2), torch.ones(2)]
        works = [data(end).allreduce([one]) for end, one in zip(ends, tensors, strict=True)]
        for work in works:
            work.wait()
        assert tensors[0].tolist() == [1.0, 1.0]
        due.set()
        until(lambda: all(work.is_completed() for work in works), "the sums")
        assert tensors[0].tolist() == [2.0, 2.0]
