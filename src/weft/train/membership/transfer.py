"""State to newcomers, sent while the others train.

Between two optimizer steps weights and moments do not change, so they can be read while forward and
backward run: side threads send them, each donor a different part. A newcomer's tensors are
overwritten in place; what it computed on them before counts for nothing.

What does not fit beside one step goes on beside the next. A parameter and what the optimizer keeps
for it is a *unit*: it is sent between two steps, and from then on the newcomer keeps it up to date
itself, because it takes part in every sum and applies every step. What belongs to no parameter
(buffers, averages, objects of the script's own) is the *rest*, and is sent at one border when all
units are there. A checksum shows whether both ends have come to the same; if a program does things
to its weights that this cannot follow, everything is sent at one border instead.
"""

import json
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor

from weft.agent.checkpoint.layout import TensorRecord
from weft.crash import passing
from weft.train.groups.flight import Pending
from weft.train.groups.group import Group
from weft.train.membership.units import REST, Roles, Run, dealt, units
from weft.train.state.intake import Intake

SMALL_REST_BYTES: Final = 256 * 1024
MOST_IN_FLIGHT: Final = 4
HEADER_TAG: Final = 1
FACTS_TAG: Final = 2
UNIT_TAG: Final = 3
DATA_TAG: Final = 4
END: Final = -1
WORDS: Final = 1 << 20

Tensors = Mapping[str, Tensor]
Facts = dict[str, Any]


class Reach(IntEnum):
    """How far a member's part of a handover has come; what all have come to is the least."""

    FAILED = 0
    MOVING = 1
    PART = 2  # what was begun has ended, and there is more
    ROLLED = 3  # all units are there; the rest is not, or is not of the same border
    WHOLE = 4


def checksum(tensors: Tensors, changing: frozenset[str]) -> int:
    """Of all that is neither the rest nor changed by a forward pass."""
    running = 0
    for name, tensor in sorted(tensors.items()):
        if name in changing or name.startswith("extra/"):
            continue
        raw = _as_bytes(_flat(tensor))
        for start in range(0, raw.numel(), WORDS):
            running = zlib.crc32(raw[start : start + WORDS].cpu().numpy().data, running)
    return running


def shared(group: Group, root: int, facts: Facts) -> Facts:
    """The facts of one member, on all: by collectives, because a thread that waits can be freed."""
    raw = _packed(facts)
    size = torch.tensor([raw.numel()])
    group.broadcast(size, root).wait()
    if group.rank != root:
        raw = torch.empty(int(size), dtype=torch.uint8)
    group.broadcast(raw, root).wait()
    return _unpacked(raw)


class Carrying:
    """Side threads that send or receive, one for each peer.

    Who fails cuts the group at once: one newcomer may be dead, and another waits for a part that
    will not come, though gloo may not notice before its limit. So nobody waits here for the end:
    one looks, and says to the others what it saw.
    """

    def __init__(self, name: str, group: Group, roles: Roles) -> None:
        self.failure: BaseException | None = None
        self.moved_bytes = 0
        self.moved_seconds = time.monotonic()
        self._name, self._group, self._roles = name, group, roles
        self._threads: list[threading.Thread] = []

    def start(self, works: Iterable[Callable[[], None]]) -> None:
        self._threads = [
            threading.Thread(target=self._run, args=(work,), name=f"weft-{self._name}", daemon=True)
            for work in works
        ]
        for thread in self._threads:
            thread.start()

    def ended(self, seconds: float = 0.0) -> bool:
        """Whether it has, after so long at the latest; a failure is an end."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            while thread.is_alive() and self.failure is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                thread.join(min(left, 0.02))
        return True

    def idle(self) -> bool:
        """Whether no thread is left, not even one that is stuck."""
        return not any(thread.is_alive() for thread in self._threads)

    def step_facts(self, facts: Facts) -> Facts:
        """What the first donor says of the step, when the part has ended."""
        return shared(self._group, self._roles.donors[0], facts)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self.failure = self.failure or error
            self._group.cut()

    def _moved(self, size: int) -> None:
        self.moved_bytes += size
        self.moved_seconds = time.monotonic()


@dataclass(slots=True)
class Journey:
    """What a donor has sent to newcomers since the epoch began."""

    parts: int = 0
    sent: dict[int, set[str]] = field(default_factory=dict)
    rolled: bool = False  # whether all units of all donors have been sent


class Sending(Carrying):
    """A donor's part. What a forward pass changes is read here, at once, by the caller."""

    def __init__(
        self, group: Group, roles: Roles, tensors: Tensors, facts: Facts, changing: frozenset[str]
    ) -> None:
        super().__init__("sending", group, roles)
        self._tensors, self._changing = dict(tensors), changing
        self._facts = facts
        self._units = units(facts["records"], changing)
        self._rest = self._units[-1]
        self._closed_at: float | None = None
        self._complete: dict[int, bool] = {}
        for name in changing & self._tensors.keys():
            self._tensors[name] = self._tensors[name].detach().clone()

    def begin(self, journey: Journey, *, whole: bool) -> None:
        """`whole`: everything between these two steps, however long it takes."""
        first = not journey.parts
        self._with_rest = whole or journey.rolled or (first and self._rest.bytes < SMALL_REST_BYTES)
        self._whole = whole
        self._checked = self._with_rest and not first
        journey.parts += 1
        self.start(
            partial(self._carry, joiner, journey.sent.setdefault(joiner, set()))
            for joiner in self._roles.joiners
        )

    def close(self, at: float) -> None:
        """No unit is begun after that time, but for the first."""
        self._closed_at = at

    def reach(self) -> Reach:
        """When it has ended."""
        if self.failure is not None:
            return Reach.FAILED
        if not all(self._complete.values()):
            return Reach.PART
        leads = self._roles.donors[0] == self._group.rank
        return Reach.ROLLED if leads and not self._with_rest else Reach.WHOLE

    def _carry(self, joiner: int, sent: set[str]) -> None:
        leads = self._roles.donors[0] == self._group.rank
        self._complete[joiner] = False
        flights = _Flights(self)
        if leads:
            self._send_facts(joiner)
        deal = dealt(self._units, self._roles, joiner)
        mine = [n for n, u in enumerate(self._units) if deal[u.name] == self._group.rank]
        left = [n for n in mine if self._units[n].name not in sent and self._units[n].name != REST]
        if leads and self._with_rest:
            left = [len(self._units) - 1, *left]
        for place, number in enumerate(left):
            if place and self._is_closed():
                break
            self._send_unit(joiner, number, flights)
            sent.add(self._units[number].name)
        flights.add(self._group.send(torch.tensor([END]), joiner, UNIT_TAG), 0)
        flights.land()
        self._complete[joiner] = all(
            self._units[n].name in sent for n in mine if self._units[n].name != REST
        )

    def _is_closed(self) -> bool:
        at = self._closed_at
        return not self._whole and at is not None and time.monotonic() >= at

    def _send_facts(self, joiner: int) -> None:
        told = dict(self._facts, records=[asdict(record) for record in self._facts["records"]])
        told["rest"] = self._with_rest
        told["check"] = checksum(self._tensors, self._changing) if self._checked else None
        raw = _packed(told)
        self._group.send(torch.tensor([raw.numel()]), joiner, HEADER_TAG).wait()
        self._group.send(raw, joiner, FACTS_TAG).wait()

    def _send_unit(self, joiner: int, number: int, flights: "_Flights") -> None:
        flights.add(self._group.send(torch.tensor([number]), joiner, UNIT_TAG), 0)
        unit = self._units[number]
        flat = {record.name: _flat(self._tensors[record.name]) for record in unit.records}
        for runs in unit.messages():
            parts = [_as_bytes(flat[run.record.name][run.start : run.stop]).cpu() for run in runs]
            self._send(joiner, parts[0] if len(parts) == 1 else torch.cat(parts), flights)

    def _send(self, joiner: int, raw: Tensor, flights: "_Flights") -> None:
        flights.add(self._group.send(raw, joiner, DATA_TAG), raw.numel())
        passing("sending")


class _Flights:
    """A few messages at a time, so that neither end waits for the other's next one."""

    def __init__(self, carrying: Carrying) -> None:
        self._carrying = carrying
        self._under_way: list[tuple[Pending, int]] = []

    def add(self, flight: Pending, size: int) -> None:
        self._under_way.append((flight, size))
        if len(self._under_way) >= MOST_IN_FLIGHT:
            self._land_one()

    def land(self) -> None:
        while self._under_way:
            self._land_one()

    def _land_one(self) -> None:
        flight, size = self._under_way.pop(0)
        flight.wait()
        self._carrying._moved(size)


class Receiving(Carrying):
    """A newcomer's part: facts from the first donor, then units from each."""

    def __init__(
        self,
        group: Group,
        roles: Roles,
        take_in: Callable[[Facts], Intake],
        changing: frozenset[str],
    ) -> None:
        super().__init__("receiving", group, roles)
        self._take_in, self._changing = take_in, changing
        self._told = threading.Event()
        self.facts: Facts = {}
        self.intake: Intake | None = None

    def begin(self) -> None:
        self.start(partial(self._take, donor) for donor in self._roles.donors)

    def close(self, at: float) -> None:
        """It ends when the donors end."""

    def reach(self) -> Reach:
        """When it has ended; how far the whole has come is for the donors to say."""
        return Reach.WHOLE if self.failure is None else Reach.FAILED

    def differs(self) -> bool:
        """Whether this end has come to something else than the other."""
        check = self.facts["check"]
        assert self.intake is not None
        return check is not None and check != checksum(self.intake.tensors, self._changing)

    def _take(self, donor: int) -> None:
        if donor == self._roles.donors[0]:
            self._receive_facts(donor)
            self._told.set()
        while not self._told.wait(1.0):
            if self.failure is not None:
                return
        while (number := self._next_unit(donor)) != END:
            for runs in self._units[number].messages():
                self._receive(donor, runs)

    def _receive_facts(self, donor: int) -> None:
        header = torch.zeros(1, dtype=torch.int64)
        self._group.receive(header, donor, HEADER_TAG).wait()
        raw = torch.empty(int(header), dtype=torch.uint8)
        self._group.receive(raw, donor, FACTS_TAG).wait()
        facts = _unpacked(raw)
        facts["records"] = tuple(_record(record) for record in facts["records"])
        self._units = units(facts["records"], self._changing)
        self.intake = self._take_in(facts)
        self.facts = facts
        passing("receiving")

    def _next_unit(self, donor: int) -> int:
        number = torch.zeros(1, dtype=torch.int64)
        self._group.receive(number, donor, UNIT_TAG).wait()
        return int(number)

    def _receive(self, donor: int, runs: tuple[Run, ...]) -> None:
        assert self.intake is not None
        size = sum(run.bytes for run in runs)
        direct = self.intake.place(runs[0].record, runs[0].start, runs[0].stop)
        raw = _as_bytes(direct) if direct is not None and len(runs) == 1 else None
        if raw is not None:
            self._group.receive(raw, donor, DATA_TAG).wait()
        else:
            raw = torch.empty(size, dtype=torch.uint8)
            self._group.receive(raw, donor, DATA_TAG).wait()
            self._put(raw, runs)
        self._moved(size)
        passing("receiving")

    def _put(self, raw: Tensor, runs: tuple[Run, ...]) -> None:
        assert self.intake is not None
        for run, part in zip(runs, torch.split(raw, [run.bytes for run in runs]), strict=True):
            dtype = getattr(torch, run.record.dtype)
            self.intake.put_run(run.record, run.start, part.clone().view(dtype))


def _packed(facts: Facts) -> Tensor:
    text = zlib.compress(json.dumps(facts).encode())
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)


def _unpacked(raw: Tensor) -> Facts:
    facts: Facts = json.loads(zlib.decompress(raw.numpy().data))
    return facts


def _record(told: dict[str, Any]) -> TensorRecord:
    shape, offsets, sizes = (tuple(told[name]) for name in ("shape", "offsets", "sizes"))
    return TensorRecord(told["name"], told["dtype"], shape, offsets, sizes)


def _flat(tensor: Tensor) -> Tensor:
    """Its elements in order, outside of autograd; of one that lies otherwise, a copy."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)


def _as_bytes(flat: Tensor) -> Tensor:
    return flat.view(torch.uint8)
