"""Groups of two in one process: what ends a wait for somebody who does not come."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import cast

import pytest
import torch
from torch._C._distributed_c10d import HashStore

from tests.calm import calm
from weft.model.errors import WorldError
from weft.train import group as group_module
from weft.train.connections import Connections
from weft.train.group import BackendGroup, gloo
from weft.train.store import AgentStore
from weft.train.transfer import Receiving, Roles

pytestmark = [pytest.mark.enable_socket, pytest.mark.timeout(60)]

LIMIT = timedelta(seconds=30)
SOON_SECONDS = 5.0
LARGE = 32 * 1024 * 1024


@contextmanager
def two() -> Iterator[tuple[BackendGroup, BackendGroup]]:
    """Both ends of a group, built at the same time as two processes would."""
    store = cast(AgentStore, HashStore())

    def end(rank: int) -> BackendGroup:
        # Each notes the sockets of both, which two processes would not; so a cut is a cut of both.
        with Connections() as connections:
            backend = gloo(store, rank, 2, "127.0.0.1", LIMIT)
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
            time.sleep(0.01 if size == LARGE else 0.1)
            began = time.monotonic()
            here.cut()
            error = waiting.exception(calm(SOON_SECONDS))
        assert size == LARGE or isinstance(error, WorldError)
        assert time.monotonic() - began < calm(SOON_SECONDS)
        with pytest.raises(WorldError):
            here.sum(torch.ones(4)).wait()


def test_closing_a_group_with_a_stuck_operation_holds_nobody_up() -> None:
    with two() as (here, _):
        flight = here.sum(torch.ones(4))
        here.cut()
        with pytest.raises(WorldError):
            flight.wait()
        began = time.monotonic()
        here.close()
        assert time.monotonic() - began < calm(SOON_SECONDS)
        with pytest.raises(WorldError, match="was closed"):
            here.sum(torch.ones(4))
    group_module._lingering.clear()


def test_receiving_is_given_up_when_the_epoch_is() -> None:
    """gloo itself would wait until its limit for the rest of a message."""
    with two() as (here, there):
        receiving = Receiving(here, Roles((1,), (0,)), lambda _: {}, frozenset())
        receiving.start()
        assert not receiving.wait(lambda: True)
        with pytest.raises(WorldError, match="given up"):
            receiving.join(lambda: True)
        here.cut()
        there.cut()
        assert receiving.wait(lambda: False)
        with pytest.raises(WorldError):
            receiving.join()


def test_only_connections_that_were_opened_inside_are_cut() -> None:
    with two() as (mine, _), two() as (other, others):
        mine.cut()
        flights = [end.sum(torch.ones(2)) for end in (other, others)]
        for flight in flights:
            flight.wait()
