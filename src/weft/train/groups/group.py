"""Process groups behind one small interface, so that NCCL is a configuration and not a rewrite.

A group is built beside the one in use, is used by one epoch and is then thrown away; it is never
repaired. With gloo only a time limit, or the end of its connections, frees a thread from a peer
that hangs: each group carries its own limit, and knows its connections. Cutting a group ends them,
and that is how members that wait for somebody else learn that the epoch is broken.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from weft.agent.messages import Members
from weft.agent.wire.control_store import epoch_prefix
from weft.crash import passing
from weft.model.errors import WorldError
from weft.train.groups.agent_store import AgentStore
from weft.train.groups.backend import CONTROL, GLOO, Backend, Kind, for_data
from weft.train.groups.connections import Connections
from weft.train.groups.flight import DONE, Event, Flight, Landing, Pending, Staged
from weft.train.membership.contact import Contact

LINGER_SECONDS: Final = 5.0
CPU: Final = torch.device("cpu")


class Group(Protocol):
    """A few processes that reduce and exchange tensors."""

    rank: int
    size: int

    @property
    def is_cut(self) -> bool:
        """Whether its operations were ended, so that what they left may be no result."""
        ...

    def sum(self, tensor: Tensor) -> Pending:
        """Begin to add up a tensor over all, in place."""
        ...

    def all_true(self, value: bool) -> bool:
        """Whether it is true for everybody."""
        ...

    def least(self, value: int) -> int:
        """The least that anybody says."""
        ...

    def broadcast(self, tensor: Tensor, root: int) -> Pending: ...

    def send(self, tensor: Tensor, to: int, tag: int) -> Pending: ...

    def receive(self, tensor: Tensor, sender: int, tag: int) -> Pending: ...

    def cut(self) -> None:
        """End all that is under way, from any thread."""
        ...

    def close(self) -> None: ...


class Alone:
    """The group of one: everything is true and summed already."""

    rank, size, is_cut = 0, 1, False

    def sum(self, tensor: Tensor) -> Pending:
        return DONE

    def all_true(self, value: bool) -> bool:
        return value

    def least(self, value: int) -> int:
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


class BackendGroup:
    """A group over one of torch's backends."""

    def __init__(
        self,
        backend: Backend,
        rank: int,
        size: int,
        connections: Connections,
        limit: timedelta,
        *,
        kind: Kind = GLOO,
    ) -> None:
        self._backend: Backend | None = backend
        self._connections, self._limit = connections, limit
        self.rank, self.size = rank, size
        self._vote = torch.empty(1, dtype=torch.int32)
        self._flights: set[Flight] = set()
        self._lock = threading.Lock()
        self._kind = kind
        self._stuck, self._cut = False, threading.Event()

    @property
    def is_cut(self) -> bool:
        return self._cut.is_set()

    def sum(self, tensor: Tensor) -> Pending:
        if tensor.device.type != "cpu" and not self._kind.streams:
            copy = tensor.cpu()
            return Staged(tensor, copy, self.sum(copy))
        return self._begin(lambda backend: backend.allreduce([tensor]))

    def connect(self, device: torch.device) -> None:
        """Let the first operation make the connections now, where nobody waits for it."""
        if self._kind.streams:
            self.sum(torch.zeros(1, device=device)).wait()

    def all_true(self, value: bool) -> bool:
        cast = self._cast(int(value))
        passing("vote-cast")
        cast.wait()
        return bool(self._vote.item())

    def least(self, value: int) -> int:
        self._cast(value).wait()
        return int(self._vote.item())

    def _cast(self, value: int) -> Flight:
        self._vote.fill_(value)
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.MIN
        return self._begin(lambda backend: backend.allreduce([self._vote], options))

    def broadcast(self, tensor: Tensor, root: int) -> Pending:
        options = dist.BroadcastOptions()
        options.rootRank, options.rootTensor = root, 0
        return self._begin(lambda backend: backend.broadcast([tensor], options))

    def send(self, tensor: Tensor, to: int, tag: int) -> Pending:
        return self._begin(lambda backend: backend.send([tensor], to, tag))

    def receive(self, tensor: Tensor, sender: int, tag: int) -> Pending:
        return self._begin(lambda backend: backend.recv([tensor], sender, tag))

    def cut(self) -> None:
        """End all that is under way: first it counts for nothing, then the backend is aborted."""
        with self._lock:
            self._cut.set()
        self._connections.cut()
        backend = self._backend
        if self._kind.streams and backend is not None:
            backend.abort()
        for flight in self._under_way():
            flight.cut()

    def close(self) -> None:
        """Let go of everything: the connections end with the last that refers to them.

        A backend waits for its operations when it is let go of, and holds up the interpreter; if
        one is stuck, that is put off until it has come to its own limit.
        """
        self._cut.set()
        backend, self._backend = self._backend, None
        for flight in self._under_way():
            flight.drop()
        if self._stuck and backend is not None:
            _linger(backend, self._limit)

    def _begin(self, operation: Callable[[Backend], Any]) -> Flight:
        backend, failure = self._backend, ""
        if backend is None or self.is_cut:
            raise WorldError("the group was closed" if backend is None else "the group was cut")
        try:
            work = operation(backend)
            landing = self._landing(work)
            flight = Flight(work, self._ended, landing)
        except RuntimeError as error:
            failure = str(error) or type(error).__name__
        finally:
            backend = work = None
        if failure:
            raise WorldError(failure)
        with self._lock:
            self._flights.add(flight)
            is_cut = self._cut.is_set()
        if is_cut:  # meanwhile, so nobody else will free who waits for it
            flight.cut()
        return flight

    def _landing(self, work: Any) -> Event | Landing | None:  # noqa: ANN401
        return Event(work, self._cut.is_set) if self._kind.streams else Landing.of(work)

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
    nodes: tuple[int, ...] = ()  # by rank: the machine, as a number; 0 where nobody writes

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

    def check_sums(self) -> None:
        """Before the vote: refuse what was summed on a group that was cut since."""
        if self.gradients.is_cut:
            raise WorldError("the group of the gradients was cut before the vote")

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
    contact: Contact,
    epoch: int,
    members: Members,
    limit_seconds: float,
    device: torch.device,
    *,
    program: int = 0,
) -> EpochGroups:
    """Meet the other members of an epoch; blocks until all have come or the epoch is given up.

    The members that hold the same part of the model must have the same `program` (see
    `StateBook.program`); 0 stands for one that is not known.
    """
    if len(members) == 1:
        alone = Alone()
        return EpochGroups(epoch, members, contact.shard, alone, alone, alone)
    rank = members.index(contact.worker)
    column = members[rank % contact.shard :: contact.shard]
    place = column.index(contact.worker)
    name = f"{rank % contact.shard}"
    meet, data = (
        _Meeting(contact, epoch, timedelta(seconds=limit_seconds), device),
        for_data(device),
    )
    votes = meet.group("votes", rank, len(members))
    nodes, programs = _introduced(votes, contact, program)
    _check_programs(programs, members, contact.shard)
    shared = contact.shard == 1 and data is CONTROL
    gradients = votes if shared else meet.group(f"gradients-{name}", place, len(column), data)
    state = meet.group(f"state-{name}", place, len(column))
    only_replica = len(column) == 1
    peers = meet.group("peers", rank, len(members)) if only_replica else Alone()
    return EpochGroups(epoch, members, contact.shard, gradients, state, votes, peers, nodes)


def _introduced(
    everyone: Group, contact: Contact, program: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The machine and the program of each member: by one sum, in which each has its own places."""
    marks = torch.zeros(2, everyone.size, dtype=torch.int64)
    if contact.writer:
        marks[0, everyone.rank] = int.from_bytes(sha256(contact.host.encode()).digest()[:7]) + 1
    marks[1, everyone.rank] = program
    everyone.sum(marks).wait()
    nodes, programs = marks.tolist()
    return tuple(nodes), tuple(programs)


def _check_programs(programs: Sequence[int], members: Members, shard: int) -> None:
    """Refuse a newcomer before the members stop for it, if their state could not fit there."""
    for rank, (member, program) in enumerate(zip(members, programs, strict=True)):
        first = rank % shard
        if program and programs[first] and program != programs[first]:
            raise WorldError(
                f"the model, the optimizer or the further state of worker {member} is not that of "
                f"worker {members[first]}; all workers must make the same before their loop",
                hint="let nothing that prepare and weft.state get depend on the worker or the time",
            )


@dataclass(frozen=True, slots=True)
class _Meeting:
    contact: Contact
    epoch: int
    limit: timedelta
    device: torch.device

    def group(self, name: str, rank: int, size: int, kind: Kind = CONTROL) -> Group:
        if size == 1:
            return Alone()
        prefix = f"{epoch_prefix(self.epoch)}{name}/"
        store = AgentStore(self.contact, prefix, self.limit)
        passing("meeting")
        with Connections() as connections:
            backend = kind.make(store, rank, size, self.contact.host, self.limit)
        connections.keep(store.told)
        group = BackendGroup(backend, rank, size, connections, self.limit, kind=kind)
        group.connect(self.device)
        return group
