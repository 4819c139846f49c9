"""Process groups behind one small interface, so that NCCL is a configuration and not a rewrite.

A group is built beside the one in use, is used by one epoch and is then thrown away; it is never
repaired. With gloo only a time limit, or the end of its connections, frees a thread from a peer
that hangs: each group carries its own limit, and knows its connections. Closing a group ends them,
and that is how members that wait for somebody else learn that the epoch is broken.
"""

from collections.abc import Callable, Iterable
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
    """

    def __init__(self, work: Pending, ended: Callable[["Flight"], None]) -> None:
        self._work: Pending | None = work
        self._ended = ended

    def wait(self) -> None:
        work, failure = self._work, ""
        if work is None:
            raise WorldError("the group was closed")
        try:
            work.wait()
        except RuntimeError as error:
            failure = _words(error)
        finally:
            work = None
            self.drop()
        if failure:
            raise WorldError(failure)

    def drop(self) -> None:
        self._work = None
        self._ended(self)


class BackendGroup:
    """A group over one of torch's backends."""

    def __init__(self, backend: Backend, rank: int, size: int, connections: Connections) -> None:
        self._backend: Backend | None = backend
        self._connections = connections
        self.rank, self.size = rank, size
        self._vote = torch.empty(1, dtype=torch.int32)
        self._flights: set[Flight] = set()

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

    def close(self) -> None:
        """End the connections, then let go of everything that refers to them."""
        self.cut()
        self._backend = None
        while self._flights:
            self._flights.pop().drop()

    def _begin(self, operation: Callable[[Backend], Pending]) -> Flight:
        if self._backend is None:
            raise WorldError("the group was closed")
        failure = ""
        try:
            flight = Flight(operation(self._backend), self._flights.discard)
        except RuntimeError as error:
            failure = _words(error)
        if failure:
            raise WorldError(failure)
        self._flights.add(flight)
        return flight


def _words(error: RuntimeError) -> str:
    return str(error) or type(error).__name__


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
        return BackendGroup(backend, rank, size, connections)
