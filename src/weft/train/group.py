"""Process groups behind one small interface, so that NCCL is a configuration and not a rewrite.

A group is built beside the one in use, is used by one epoch and is then thrown away; it is never
repaired. With gloo only a time limit, or the end of its connections, frees a thread from a peer
that hangs: each group carries its own limit, and knows its connections. Cutting a group ends them,
and that is how members that wait for somebody else learn that the epoch is broken.
"""

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Protocol, TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor

from weft.agent.messages import Members
from weft.agent.store import epoch_prefix
from weft.crash import passing
from weft.model.errors import WorldError
from weft.train.connections import Connections
from weft.train.contact import Contact
from weft.train.store import AgentStore

Backend: TypeAlias = Any  # one of torch's; they are alike in what is used here
LINGER_SECONDS: Final = 5.0


class Pending(Protocol):
    """Something that was begun and can be waited for."""

    def wait(self) -> object: ...


class Group(Protocol):
    """A few processes that reduce and exchange tensors."""

    rank: int
    size: int

    def sum(self, tensor: Tensor) -> Pending:
        """Begin to add up a tensor over all, in place."""
        ...

    def all_true(self, value: bool) -> bool:
        """Whether it is true for everybody."""
        ...

    def broadcast(self, tensor: Tensor, root: int) -> Pending: ...

    def send(self, tensor: Tensor, to: int, tag: int) -> Pending: ...

    def receive(self, tensor: Tensor, sender: int, tag: int) -> Pending: ...

    def cut(self) -> None:
        """End all that is under way, from any thread."""
        ...

    def close(self) -> None: ...


class Done:
    """What needs no waiting."""

    def wait(self) -> None:
        return None


DONE: Final = Done()


class Alone:
    """The group of one: everything is true and summed already."""

    rank, size = 0, 1

    def sum(self, tensor: Tensor) -> Pending:
        return DONE

    def all_true(self, value: bool) -> bool:
        return value

    def broadcast(self, tensor: Tensor, root: int) -> Pending:
        return DONE

    def send(self, tensor: Tensor, to: int, tag: int) -> Pending:
        raise AssertionError("a group of one has nobody to send to")

    def receive(self, tensor: Tensor, sender: int, tag: int) -> Pending:
        raise AssertionError("a group of one has nobody to receive from")

    def cut(self) -> None:
        return None

    def close(self) -> None:
        return None


class Flight:
    """An operation under way; it lets go of torch's work as soon as that has ended, well or not.

    A work keeps the connections of its group open, and an error keeps every frame that it passed
    through. Were a work or a backend a local of such a frame, a group could be closed and yet not
    be gone. So what torch raises goes no further: it is told in an error of our own.

    A collective of gloo is waited for by a lock that its end releases, or the cutting of its group:
    gloo forgets who waits for a message of which only a part has come when its connection ends.
    """

    def __init__(
        self,
        work: Any,  # noqa: ANN401
        ended: Callable[["Flight"], None],
        landing: "Landing | None",
    ) -> None:
        self._work, self._ended, self._landing = work, ended, landing
        self.stuck = False

    def wait(self) -> None:
        work, failure = self._work, ""
        if work is None:
            raise WorldError("the group was closed")
        landed = self._landing is None or self._landing.awaited()
        try:
            if landed:
                work.wait()
            else:
                self.stuck, failure = True, "the group was cut"
        except RuntimeError as error:
            failure = str(error) or type(error).__name__
        finally:
            work = None
            self.drop()
        if failure:
            raise WorldError(failure)

    def cut(self) -> None:
        """Whoever waits need not wait any longer."""
        if self._landing is not None:
            self._landing.give_up()

    def drop(self) -> None:
        self._work = None
        self._ended(self)


class Landing:
    """The end of an operation, or of all patience with it: whichever comes first."""

    def __init__(self) -> None:
        self._landed = False
        self._lock = threading.Lock()
        self._lock.acquire()

    @classmethod
    def of(cls, work: Any) -> "Landing | None":  # noqa: ANN401
        """A message between two has none."""
        landing = cls()
        try:
            work.get_future().add_done_callback(lambda _: landing.land())
        except RuntimeError:
            return None
        return landing

    def awaited(self) -> bool:
        """Wait; whether it has landed."""
        self._lock.acquire()
        return self._landed

    def land(self) -> None:
        self._landed = True
        self.give_up()

    def give_up(self) -> None:
        with suppress(RuntimeError):  # somebody was faster
            self._lock.release()


class BackendGroup:
    """A group over one of torch's backends."""

    def __init__(
        self,
        backend: Backend,
        rank: int,
        size: int,
        connections: Connections,
        limit: timedelta,
    ) -> None:
        self._backend: Backend | None = backend
        self._connections, self._limit = connections, limit
        self.rank, self.size = rank, size
        self._vote = torch.empty(1, dtype=torch.int32)
        self._flights: set[Flight] = set()
        self._lock = threading.Lock()
        self._blocking = isinstance(backend, dist.ProcessGroupGloo)  # else a stream waits, not us
        self._stuck = False

    def sum(self, tensor: Tensor) -> Pending:
        return self._begin(lambda backend: backend.allreduce([tensor]))

    def all_true(self, value: bool) -> bool:
        self._vote.fill_(int(value))
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.MIN
        cast = self._begin(lambda backend: backend.allreduce([self._vote], options))
        passing("vote-cast")
        cast.wait()
        return bool(self._vote.item())

    def broadcast(self, tensor: Tensor, root: int) -> Pending:
        options = dist.BroadcastOptions()
        options.rootRank, options.rootTensor = root, 0
        return self._begin(lambda backend: backend.broadcast([tensor], options))

    def send(self, tensor: Tensor, to: int, tag: int) -> Pending:
        return self._begin(lambda backend: backend.send([tensor], to, tag))

    def receive(self, tensor: Tensor, sender: int, tag: int) -> Pending:
        return self._begin(lambda backend: backend.recv([tensor], sender, tag))

    def cut(self) -> None:
        self._connections.cut()
        for flight in self._under_way():
            flight.cut()

    def close(self) -> None:
        """Let go of everything: the connections end with the last that refers to them.

        A backend waits for its operations when it is let go of, and holds up the interpreter; if
        one is stuck, that is put off until it has come to its own limit.
        """
        backend, self._backend = self._backend, None
        for flight in self._under_way():
            flight.drop()
        if self._stuck and backend is not None:
            _linger(backend, self._limit)

    def _begin(self, operation: Callable[[Backend], Any]) -> Flight:
        backend, failure = self._backend, ""
        if backend is None:
            raise WorldError("the group was closed")
        try:
            work = operation(backend)
            flight = Flight(work, self._ended, Landing.of(work) if self._blocking else None)
        except RuntimeError as error:
            failure = str(error) or type(error).__name__
        finally:
            backend = work = None
        if failure:
            raise WorldError(failure)
        with self._lock:
            self._flights.add(flight)
        return flight

    def _ended(self, flight: Flight) -> None:
        self._stuck = self._stuck or flight.stuck
        with self._lock:
            self._flights.discard(flight)

    def _under_way(self) -> list[Flight]:
        with self._lock:
            return list(self._flights)


_lingering: list[tuple[float, Backend]] = []


def _linger(backend: Backend, limit: timedelta) -> None:
    now = time.monotonic()
    _lingering[:] = [(until, one) for until, one in _lingering if until > now]
    _lingering.append((now + limit.total_seconds() + LINGER_SECONDS, backend))


Make = Callable[[AgentStore, int, int, str, timedelta], Any]


def gloo(store: AgentStore, rank: int, size: int, host: str, limit: timedelta) -> Backend:
    """A group over TCP between the members' processors."""
    options = dist.ProcessGroupGloo._Options()  # type: ignore[attr-defined]
    options._devices = [dist.ProcessGroupGloo.create_device(hostname=host)]
    options._timeout = limit
    options._threads = 2
    return dist.ProcessGroupGloo(store, rank, size, options)


def nccl(store: AgentStore, rank: int, size: int, host: str, limit: timedelta) -> Backend:
    """A group between GPUs. Only a machine that has them can show that this works."""
    options = dist.ProcessGroupNCCL.Options()
    options._timeout = limit
    return dist.ProcessGroupNCCL(store, rank, size, options)


BACKENDS: Final[dict[str, Make]] = {"gloo": gloo, "nccl": nccl}


@dataclass(frozen=True, slots=True)
class EpochGroups:
    """What an epoch's members reduce, vote and exchange state on.

    Replicas of one position in their shard group sum gradients and exchange state; all members
    vote. State has a group of its own, so that it never mixes with gradients; so have the members
    of a single sharded replica, who keep copies of each other's snapshots.
    """

    epoch: int
    members: Members
    shard: int
    gradients: Group
    state: Group
    votes: Group
    peers: Group = field(default_factory=Alone)

    @property
    def place(self) -> int:
        """This worker's rank among all members."""
        return self.votes.rank

    @property
    def replica(self) -> int:
        """Which of the replicas this worker belongs to."""
        return self.gradients.rank

    @property
    def replicas(self) -> int:
        return self.gradients.size

    def cut(self) -> None:
        """End all that is under way on any of them, from any thread."""
        for group in self._each():
            group.cut()

    def close(self) -> None:
        for group in self._each():
            group.close()

    def _each(self) -> Iterable[Group]:
        groups = (self.gradients, self.state, self.votes, self.peers)
        return {id(group): group for group in groups}.values()


def build(
    contact: Contact, epoch: int, members: Members, limit_seconds: float, backend: str = "gloo"
) -> EpochGroups:
    """Meet the other members of an epoch; blocks until all have come or the epoch is given up."""
    if len(members) == 1:
        alone = Alone()
        return EpochGroups(epoch, members, contact.shard, alone, alone, alone)
    rank = members.index(contact.worker)
    column = members[rank % contact.shard :: contact.shard]
    place = column.index(contact.worker)
    name = f"{rank % contact.shard}"
    meet = _Meeting(contact, epoch, timedelta(seconds=limit_seconds), BACKENDS[backend])
    votes = meet.group("votes", rank, len(members))
    gradients = votes if contact.shard == 1 else meet.group(f"gradients-{name}", place, len(column))
    state = meet.group(f"state-{name}", place, len(column))
    only_replica = len(column) == 1
    peers = meet.group("peers", rank, len(members)) if only_replica else Alone()
    return EpochGroups(epoch, members, contact.shard, gradients, state, votes, peers)


@dataclass(frozen=True, slots=True)
class _Meeting:
    contact: Contact
    epoch: int
    limit: timedelta
    make: Make

    def group(self, name: str, rank: int, size: int) -> Group:
        if size == 1:
            return Alone()
        prefix = f"{epoch_prefix(self.epoch)}{name}/"
        store = AgentStore(self.contact, prefix, self.limit)
        passing("meeting")
        with Connections() as connections:
            backend = self.make(store, rank, size, self.contact.host, self.limit)
        return BackendGroup(backend, rank, size, connections, self.limit)
