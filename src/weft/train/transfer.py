"""State to newcomers, sent while the others compute.

Between two optimizer steps weights and moments do not change, so they can be read while forward and
backward run: a side thread sends them, each donor a different part. What a forward pass does change
(buffers) and what is small is packed into one tensor before the step begins. A newcomer's tensors
are overwritten in place; what it computed on them before counts for nothing.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from weft.crash import passing
from weft.model.errors import WorldError
from weft.train.group import Group, Pending

CHUNK_BYTES: Final = 4 * 1024 * 1024
SMALL_BYTES: Final = 64 * 1024
MOST_IN_FLIGHT: Final = 4
LOOK_SECONDS: Final = 0.02
HEADER_TAG: Final = 1
FACTS_TAG: Final = 2
PACKED_TAG: Final = 3
FIRST_TAG: Final = 16

Tensors = Mapping[str, Tensor]
MakeRoom = Callable[[Any], Tensors]


@dataclass(frozen=True, slots=True)
class Roles:
    """Ranks in the state group: who has the state, and who is to get it."""

    donors: tuple[int, ...]
    joiners: tuple[int, ...]

    def donor_of(self, chunk: int, joiner: int) -> int:
        """Each newcomer starts with another donor, so that all donors send all the time."""
        return self.donors[(chunk + self.joiners.index(joiner)) % len(self.donors)]


class Transfer:
    """A side thread that sends or receives; what went wrong is raised by `join`.

    Who fails cuts the group at once: one newcomer may be dead, and another waits for a part that
    will not come. Whoever waits for it here may be told to give up, and then nothing comes any
    more, because the group is cut, though gloo may not notice before its limit.
    """

    def __init__(self, name: str, group: Group) -> None:
        self.failure: BaseException | None = None
        self._group = group
        self._thread = threading.Thread(target=self._run, name=f"weft-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, given_up: Callable[[], bool] = lambda: False) -> None:
        """Wait for the end; the only wait of a switch that training can notice."""
        if not self.wait(given_up):
            raise WorldError("the epoch was given up while the state was sent")
        if self.failure is not None:
            raise self.failure

    def wait(self, given_up: Callable[[], bool] = lambda: False) -> bool:
        """Whether it has ended; false if it was given up before."""
        while self._thread.is_alive() and not given_up():
            self._thread.join(LOOK_SECONDS)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.carry_out()
        except Exception as error:
            self.failure = error
            self._group.cut()

    def carry_out(self) -> None:
        raise NotImplementedError


class Sending(Transfer):
    """A donor's part. The facts and all small tensors are read here, at once, by the caller."""

    def __init__(
        self, group: Group, roles: Roles, tensors: Tensors, facts: object, changing: frozenset[str]
    ) -> None:
        super().__init__("sending", group)
        self._roles = roles
        small, self._large = _sorted(tensors, changing)
        self._facts = torch.frombuffer(bytearray(json.dumps(facts).encode()), dtype=torch.uint8)
        self._packed = _pack([tensors[name] for name in small])

    def carry_out(self) -> None:
        flights: list[Pending] = []
        for joiner in self._roles.joiners:
            if self._roles.donors[0] == self._group.rank:
                self._send_small(joiner)
        for number, chunk in enumerate(_chunks(self._large)):
            for joiner in self._roles.joiners:
                if self._roles.donor_of(number, joiner) != self._group.rank:
                    continue
                flights.append(self._group.send(chunk, joiner, FIRST_TAG + number))
                passing("sending")
                if len(flights) >= MOST_IN_FLIGHT:
                    flights.pop(0).wait()
        for flight in flights:
            flight.wait()

    def _send_small(self, joiner: int) -> None:
        header = torch.tensor([self._facts.numel(), self._packed.numel()], dtype=torch.int64)
        self._group.send(header, joiner, HEADER_TAG).wait()
        self._group.send(self._facts, joiner, FACTS_TAG).wait()
        if self._packed.numel():
            self._group.send(self._packed, joiner, PACKED_TAG).wait()


class Receiving(Transfer):
    """A newcomer's part; `facts` holds what is no tensor once it has been joined."""

    def __init__(
        self, group: Group, roles: Roles, make_room: MakeRoom, changing: frozenset[str]
    ) -> None:
        super().__init__("receiving", group)
        self._roles = roles
        self._make_room, self._changing = make_room, changing
        self.facts: Any = None

    def carry_out(self) -> None:
        donor = self._roles.donors[0]
        header = torch.zeros(2, dtype=torch.int64)
        self._group.receive(header, donor, HEADER_TAG).wait()
        facts_bytes, packed_bytes = (int(size) for size in header)
        facts = torch.empty(facts_bytes, dtype=torch.uint8)
        self._group.receive(facts, donor, FACTS_TAG).wait()
        self.facts = json.loads(bytes(facts.tolist()))
        self._receive_tensors(self._make_room(self.facts), packed_bytes)

    def _receive_tensors(self, tensors: Tensors, packed_bytes: int) -> None:
        small, large = _sorted(tensors, self._changing)
        flights: list[Pending] = []
        for number, chunk in enumerate(_chunks(large)):
            donor = self._roles.donor_of(number, self._group.rank)
            flights.append(self._group.receive(chunk, donor, FIRST_TAG + number))
            passing("receiving")
        packed = torch.empty(packed_bytes, dtype=torch.uint8)
        if packed_bytes:
            self._group.receive(packed, self._roles.donors[0], PACKED_TAG).wait()
            _unpack(packed, [tensors[name] for name in small])
        for flight in flights:
            flight.wait()


def _sorted(tensors: Tensors, changing: frozenset[str]) -> tuple[list[str], list[Tensor]]:
    """Names to pack, and tensors to send as they are, in the order that all members share."""
    small: list[str] = []
    large: list[Tensor] = []
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        if name in changing or size <= SMALL_BYTES or not tensor.is_contiguous():
            small.append(name)
        else:
            large.append(tensor.detach())
    return small, large


def _chunks(tensors: Sequence[Tensor]) -> Iterator[Tensor]:
    for tensor in tensors:
        flat = tensor.view(-1)
        length = max(CHUNK_BYTES // flat.element_size(), 1)
        yield from torch.split(flat, length)


def _pack(tensors: Sequence[Tensor]) -> Tensor:
    if not tensors:
        return torch.empty(0, dtype=torch.uint8)
    return torch.cat([_as_bytes(tensor.detach().cpu()) for tensor in tensors])


def _unpack(packed: Tensor, tensors: Sequence[Tensor]) -> None:
    start = 0
    with torch.no_grad():
        for tensor in tensors:
            size = tensor.numel() * tensor.element_size()
            part = packed[start : start + size].clone().view(tensor.dtype).reshape(tensor.shape)
            tensor.detach().copy_(part)
            start += size


def _as_bytes(tensor: Tensor) -> Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)
