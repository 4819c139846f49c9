"""What is kept in a round for gangs that failed, each opened when its own gang is asked.

A hold stands only where its queue would let the gang start now, and where guarantees are stated,
within its guarantee: what was lent is nobody's to keep.
"""

from weft.brain.state.brain_state import BrainState
from weft.brain.state.seat_hold import SeatHold
from weft.model.ids import JobId
from weft.model.kind import Kind
from weft.model.state import State
from weft.policy.place.room import Room, Share, host_cpus, host_memory_gib
from weft.policy.tenancy.quota import QuotaLedger


class Holds:
    """GPUs that are free and kept, taken off the room that they are kept in."""

    def __init__(self, state: BrainState, now: float, room: Room, ledger: QuotaLedger) -> None:
        self._state = state
        self._room = room
        self._kept: dict[int, tuple[Share, ...]] = {}
        self._opened: set[int] = set()
        for slot in _standing(state, now, ledger):
            self._kept[slot] = self._left_of(slot, state.failures.holds[slot])

    def __bool__(self) -> bool:
        return bool(self._kept)

    def __contains__(self, slot: int) -> bool:
        return slot in self._kept

    @property
    def gpus(self) -> int:
        """Kept for somebody, and not open."""
        return sum(self.gpus_of(slot) for slot in self._kept if slot not in self._opened)

    @property
    def holders(self) -> list[JobId]:
        return [self._state.spec(slot).id for slot in self._kept]

    def gpus_of(self, slot: int) -> int:
        return sum(gpus for _, gpus in self._kept.get(slot, ()))

    def open(self, slot: int) -> int:
        """Its own gang may have them; how many there are."""
        self._opened.add(slot)
        self._give(self._room, slot)
        return self.gpus_of(slot)

    def shut(self, slot: int) -> int:
        """It could not be seated: they stay kept; how many there are."""
        self._opened.discard(slot)
        self._room.take(self._kind(slot), self._kept[slot])
        return self.gpus_of(slot)

    def end(self, slot: int) -> None:
        """It was seated: what it did not need is there for everybody."""
        self._opened.discard(slot)
        del self._kept[slot]

    def all_open(self) -> Room:
        """The room as it would be if nothing were kept."""
        room = self._room.copy()
        for slot in self._kept:
            if slot not in self._opened:
                self._give(room, slot)
        return room

    def _left_of(self, slot: int, hold: SeatHold) -> tuple[Share, ...]:
        """What of it is free and on nodes that it would go to; taken off the room."""
        state, kind, found = self._state, self._kind(slot), []
        for node, had in hold.shares:
            gpus = min(had, int(self._room.gpus[node]))
            if gpus <= 0 or state.node_ids[node] in kind.avoid or not state.fabric.usable[node]:
                continue
            self._room.take(kind, ((node, gpus),))
            if self._room.stands(((node, gpus),)):
                found.append((node, gpus))
            else:
                self._room.give([_seat(kind, node, gpus)])
        return tuple(found)

    def _give(self, room: Room, slot: int) -> None:
        room.give(_seat(self._kind(slot), node, gpus) for node, gpus in self._kept[slot])

    def _kind(self, slot: int) -> Kind:
        return self._state.kinds[int(self._state.jobs.kind[slot])]


def _seat(kind: Kind, node: int, gpus: int) -> tuple[int, int, float, float]:
    return node, gpus, host_cpus(kind, gpus), host_memory_gib(kind, gpus)


def _standing(state: BrainState, now: float, ledger: QuotaLedger) -> list[int]:
    """Whose hold counts now: of several that share a guarantee, as many as it covers."""
    found: list[int] = []
    for slot, hold in state.failures.holds.items():
        rests = float(state.jobs.not_before[slot]) >= hold.until
        waits = state.state_of(slot) is State.QUEUED and hold.until > now and not rests
        if waits and _is_lawful(state, ledger, slot):
            found.append(slot)
            ledger.take(int(state.jobs.queue[slot]), _width(state, slot))
    for slot in found:
        ledger.give(int(state.jobs.queue[slot]), _width(state, slot))
    return found


def _is_lawful(state: BrainState, ledger: QuotaLedger, slot: int) -> bool:
    queue, width = int(state.jobs.queue[slot]), _width(state, slot)
    if queue < 0:
        return False
    firm = not state.jobs.preemptible[slot]
    if state.quota.limited and ledger.refusing(queue, width, firm=firm) is not None:
        return False
    return not state.quota.divided or ledger.within_guarantee(queue, width)


def _width(state: BrainState, slot: int) -> int:
    return sum(gpus for _, gpus in state.failures.holds[slot].shares)
