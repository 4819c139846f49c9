"""Groups of two in one process: what ends a wait for somebody who does not come."""

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import cast

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

from tests.waiting import HANG_SECONDS, until
from weft.model.errors import WorldError
from weft.train.groups import group as group_module
from weft.train.groups.agent_store import AgentStore
from weft.train.groups.backend import gloo
from weft.train.groups.connections import Connections
from weft.train.groups.group import BackendGroup
from weft.train.membership.transfer import Reach, Receiving
from weft.train.membership.units import Roles
from weft.train.state.intake import Intake

pytestmark = pytest.mark.enable_socket

LIMIT = timedelta(seconds=600)  # of gloo itself: no test waits for it
LARGE = 32 * 1024 * 1024


class Telling(dist.Store):  # type: ignore[name-defined,misc]
    """A store that remembers what it was told, as the agent's does."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[bytes] = []
        self._store = HashStore()

    def set(self, key: str, value: bytes) -> None:
        self.told.append(bytes(value))
        self._store.set(key, value)  # type: ignore[arg-type]

    def get(self, key: str) -> bytes:
        return bytes(self._store.get(key))

    def wait(self, keys: list[str], timeout: timedelta = LIMIT) -> None:
        self._store.wait(keys, timeout)


@contextmanager
def two(
    meanwhile: Callable[[], object] = lambda: None,
) -> Iterator[tuple[BackendGroup, BackendGroup]]:
    """Both ends of a group, built at the same time as two processes would."""
    telling = Telling()
    store = cast(AgentStore, telling)

    def end(rank: int) -> BackendGroup:
        # Each notes the sockets of both, which two processes would not; so a cut is a cut of both.
        with Connections() as connections:
            backend = gloo(store, rank, 2, "127.0.0.1", LIMIT)
            meanwhile()
        connections.keep(telling.told)
        return BackendGroup(backend, rank, 2, connections, LIMIT)

    with ThreadPoolExecutor() as threads:
        ends = tuple(threads.map(end, range(2)))
    try:
        yield ends[0], ends[1]
    finally:
        for one in ends:
            one.cut()
            one.close()


def test_what_is_summed_is_summed_for_both() -> None:
    with two() as ends:
        tensors = [torch.full((3,), float(rank + 1)) for rank in range(2)]
        flights = [end.sum(tensor) for end, tensor in zip(ends, tensors, strict=True)]
        for flight in flights:
            flight.wait()
        assert all(tensor.tolist() == [3.0, 3.0, 3.0] for tensor in tensors)
        with ThreadPoolExecutor() as threads:
            assert list(threads.map(lambda end: end.all_true(True), ends)) == [True, True]
            votes = threads.map(
                lambda pair: pair[0].all_true(pair[1]), zip(ends, (True, False), strict=True)
            )
            assert list(votes) == [False, False]


@pytest.mark.parametrize("size", [4, LARGE], ids=["small", "large"])
def test_a_wait_ends_when_the_group_is_cut(size: int) -> None:
    """From another thread, while the peer does not come, or is in the middle of a message."""
    with two() as (here, there):
        flight = here.sum(torch.ones(size))
        if size == LARGE:
            there.sum(torch.ones(size))
        with ThreadPoolExecutor() as threads:
            waiting = threads.submit(flight.wait)
            until(waiting.running, "a thread to wait")
            here.cut()
            error = waiting.exception(HANG_SECONDS)
        assert size == LARGE or isinstance(error, WorldError)
        with pytest.raises(WorldError):
            here.sum(torch.ones(4)).wait()


def test_closing_a_group_with_a_stuck_operation_holds_nobody_up() -> None:
    with two() as (here, _):
        flight = here.sum(torch.ones(4))
        here.cut()
        with pytest.raises(WorldError):
            flight.wait()
        here.close()
        with pytest.raises(WorldError, match="was closed"):
            here.sum(torch.ones(4))
    group_module._lingering.clear()


def test_who_receives_is_never_waited_for_in_silence() -> None:
    """gloo itself would wait until its limit for the rest of a message."""
    with two() as (here, there):
        receiving = Receiving(here, Roles((1,), (0,)), no_intake, frozenset())
        receiving.begin()
        assert not receiving.ended(0.1)
        here.cut()
        there.cut()
        assert receiving.ended(HANG_SECONDS)
        assert isinstance(receiving.failure, WorldError)
        assert receiving.reach() is Reach.FAILED


def no_intake(facts: object) -> Intake:
    raise AssertionError("nothing was sent")


def test_only_connections_that_were_opened_inside_are_cut() -> None:
    with two() as (mine, _), two() as (other, others):
        mine.cut()
        flights = [end.sum(torch.ones(2)) for end in (other, others)]
        for flight in flights:
            flight.wait()


def test_connections_that_the_script_opens_meanwhile_are_let_alone() -> None:
    """To its data or its tracker: a group that is cut has nothing to do with them."""
    mine: list[socket.socket] = []
    theirs: list[socket.socket] = []

    with socket.create_server(("127.0.0.1", 0)) as door:

        def connect() -> None:
            mine.append(socket.create_connection(door.getsockname()))
            theirs.append(door.accept()[0])

        with two(connect) as (here, there):
            here.cut()
            there.cut()
            with pytest.raises(WorldError):
                here.sum(torch.ones(4)).wait()
        for one in mine:
            one.sendall(b"x")
        assert [one.recv(1) for one in theirs] == [b"x", b"x"]
        for one in (*mine, *theirs):
            one.close()
    group_module._lingering.clear()
