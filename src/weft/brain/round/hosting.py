"""Hosting: what each running job is to be fed once a round has handed out its seats.

All that is owed is handed out already, so what the room has left is what may be fed. It is shared
out anew as if nobody had any; then whoever is to have more gets it, where that pays and what it
takes is free now, and whoever is to have less gives it back, where somebody needs it. What is given
back is fed to others in a later round.
"""

import numpy as np

from weft.brain.round.outcome import Outcome
from weft.brain.round.session import Session
from weft.model.host import PerGpu
from weft.model.snapshot import Floats
from weft.model.state import State
from weft.policy.host.core_ladder import Rung
from weft.policy.host.shares import HostShares, fed_kind
from weft.policy.host.sharing import Claim, share_out
from weft.policy.place.room import ROUNDING, Room

NOTHING = PerGpu(0.0, 0.0)
TO_COME = (State.ADMITTED, State.STARTING)


class Hosting:
    """The feedings of one round."""

    def __init__(self, session: Session, outcome: Outcome, shares: HostShares) -> None:
        self._session, self._outcome, self._shares = session, outcome, shares
        self._state = session.state
        self._leaving = {*outcome.preempted, *(moved.slot for moved in outcome.moves)}
        self._stretched: set[int] = set()
        self._in_company = {slot for one in outcome.joins for slot in (one.slot, one.lead)}

    def settle(self) -> None:
        free = self._free_now()
        self._put_off_growths(free)
        self._stretched = {changed.slot for changed in self._outcome.stretched}
        claims = self._claims()
        if not claims:
            return
        for granted in self._outcome.grants:
            free.take(self._session.kind(granted.slot), granted.shares)
        targets = share_out([*claims.values()], *self._beyond_owed(claims))
        wanting = self._grow(claims, targets, free)
        self._call_back(claims, targets, wanting, _short(free))

    def _put_off_growths(self, free: Room) -> None:
        """Seats are not added where others are fed what they need: that is called back first.

        Further seats are fed like those that a job has, so it may have to give up something itself.
        """
        state, outcome = self._state, self._outcome
        for changed in [changed for changed in outcome.stretched if changed.added]:
            fed = state.fed(changed.slot)
            free.take(fed_kind(self._session.kind(changed.slot), fed), changed.added)
            nodes = {node for node, _ in changed.added}
            if not nodes & _short(free):
                continue
            outcome.stretched.remove(changed)
            outcome.unsettled |= nodes
            if any(fed) and changed.slot not in state.seating.feeding:
                outcome.feeds[changed.slot] = NOTHING

    # --- who could use more -------------------------------------------------------------------

    def _claims(self) -> dict[int, Claim]:
        """Jobs that can be fed, and those who will be when they run; by slot.

        Only on nodes where something changed, and on those to which their jobs reach: what was
        shared out on the others still holds.
        """
        state, coming = self._state, {g.slot: g.shares for g in self._outcome.grants}
        nodes = state.seating.touched | self._outcome.unsettled
        nodes |= {node for shares in coming.values() for node, _ in shares}
        shares = {slot: given for slot, given in coming.items() if slot in state.ladders}
        ahead = sorted(nodes)
        while ahead:
            for slot in self._at_table(ahead.pop()):
                if slot not in shares:
                    shares[slot] = self._seated(slot)
                    further = {node for node, _ in shares[slot]} - nodes
                    nodes |= further
                    ahead += sorted(further)
        seq = state.jobs.seq
        return {s: Claim(int(seq[s]), given, state.ladders[s]) for s, given in shares.items()}

    def _at_table(self, node: int) -> list[int]:
        """Who sits there and can be fed, now or once it runs."""
        state = self._state
        here = dict.fromkeys(state.seats.slot[list(state.seating.held_on[node])].tolist())
        here |= state.seating.pledged_on[node]
        return [slot for slot in here if slot in state.ladders and self._can_be_fed(slot)]

    def _can_be_fed(self, slot: int) -> bool:
        if slot in self._leaving or slot in self._stretched or slot in self._outcome.feeds:
            return False
        if slot in self._in_company or self._state.seating.company.shares(slot):
            return False
        status = self._state.state_of(slot)
        if status is State.RUNNING:
            return bool(self._state.jobs.tunable[slot])
        return status in TO_COME

    def _seated(self, slot: int) -> tuple[tuple[int, int], ...]:
        rows, placement = self._state.node_row, self._state.placement(slot)
        return tuple((rows[node], gpus) for node, gpus in placement.gpus_by_node.items())

    # --- what there is ------------------------------------------------------------------------

    def _beyond_owed(self, claims: dict[int, Claim]) -> tuple[Floats, Floats]:
        """What may be fed: all that is owed to nobody, less what others are fed who keep it."""
        state, seats, count = self._state, self._state.seats, self._state.seat_count
        others = np.zeros(len(state.jobs.active) + 1, bool)
        others[: state.size] = True
        others[[*claims, *self._leaving]] = False
        kept = others[seats.slot[:count]]
        room, where = self._session.room, seats.node[:count]
        cpus = np.bincount(where, seats.fed_cpus[:count] * kept, minlength=len(room.cpus))
        gib = np.bincount(where, seats.fed_gib[:count] * kept, minlength=len(room.cpus))
        return (room.cpus - cpus).clip(min=0.0), (room.memory_gib - gib).clip(min=0.0)

    def _free_now(self) -> Room:
        """What nobody holds or was pledged: less than nothing where a job waits for it."""
        state, seats, count = self._state, self._state.seats, self._state.seat_count
        nodes, where = state.fabric.nodes, seats.node[:count]
        cpus, gib = seats.cpus + seats.fed_cpus, seats.memory_gib + seats.fed_gib
        return Room(
            nodes.gpus.copy(),
            nodes.cpus - np.bincount(where, cpus[:count], minlength=len(nodes.cpus)),
            nodes.memory_gib - np.bincount(where, gib[:count], minlength=len(nodes.cpus)),
        )

    # --- more and less ------------------------------------------------------------------------

    def _grow(self, claims: dict[int, Claim], targets: dict[int, Rung], free: Room) -> set[int]:
        """Feed those who gain, most first; the nodes on which somebody finds too little."""
        wanting: set[int] = set()
        gains = [(self._gain(slot, claims[slot], targets), slot) for slot in self._fed_now(claims)]
        for gain, slot in sorted(gains, key=lambda found: (-found[0], claims[found[1]].key)):
            if gain <= self._shares.gain:
                break
            claim, have = claims[slot], self._state.fed(slot)
            if not self._rested(slot):
                self._outcome.unsettled.update(node for node, _ in claim.gpus)
                continue
            level = self._level(slot, targets[claim.key])
            lacking = _lacking(free, claim, have, level)
            if lacking:
                wanting |= lacking
                self._outcome.unsettled |= lacking
            else:
                self._outcome.feeds[slot] = level
                _take(free, claim, have, level)
        return wanting

    def _call_back(
        self,
        claims: dict[int, Claim],
        targets: dict[int, Rung],
        wanting: set[int],
        short: set[int],
    ) -> None:
        """From those who have more than their share, where a job is short or others want more."""
        if not wanting and not short:
            return
        for slot in self._fed_now(claims):
            claim, have = claims[slot], self._state.fed(slot)
            level = _smaller(have, self._level(slot, targets[claim.key]))
            if level == have or slot in self._outcome.feeds:
                continue
            nodes = {node for node, _ in claim.gpus}
            if nodes & short or (nodes & wanting and self._rested(slot)):
                self._outcome.feeds[slot] = level

    def _fed_now(self, claims: dict[int, Claim]) -> list[int]:
        """Those who can be told now."""
        jobs, feeding = self._state.jobs, self._state.seating.feeding
        return [s for s in claims if jobs.state[s] == State.RUNNING and s not in feeding]

    def _gain(self, slot: int, claim: Claim, targets: dict[int, Rung]) -> float:
        curve = self._state.host_of(slot)
        assert curve is not None
        owed, have = self._owed(slot), self._state.fed(slot)
        now = curve.at(PerGpu(owed.cores + have.cores, owed.memory_gib + have.memory_gib))
        return targets[claim.key].speed / max(now, ROUNDING) - 1.0

    def _level(self, slot: int, rung: Rung) -> PerGpu:
        """What that rung is beyond what the job is owed."""
        owed = self._owed(slot)
        more = rung.host.cores - owed.cores, rung.host.memory_gib - owed.memory_gib
        return PerGpu(max(more[0], 0.0), max(more[1], 0.0))

    def _owed(self, slot: int) -> PerGpu:
        """What its seats say for each GPU; the same for all of them."""
        row = self._state.seating.seat_rows[slot][0]
        seats = self._state.seats
        gpus = int(seats.gpus[row])
        return PerGpu(float(seats.cpus[row]) / gpus, float(seats.memory_gib[row]) / gpus)

    def _rested(self, slot: int) -> bool:
        """Whether its last feeding is long enough ago; if not, a round is asked for when it is."""
        until = float(self._state.jobs.fed_at[slot]) + self._shares.hold_seconds
        if not self._state.jobs.fed_serial[slot] or until <= self._session.now:
            return True
        self._outcome.wake_by(until)
        return False


def _lacking(free: Room, claim: Claim, have: PerGpu, level: PerGpu) -> set[int]:
    return {
        node
        for node, gpus in claim.gpus
        if (level.cores - have.cores) * gpus > free.cpus[node] + ROUNDING
        or (level.memory_gib - have.memory_gib) * gpus > free.memory_gib[node] + ROUNDING
    }


def _take(free: Room, claim: Claim, have: PerGpu, level: PerGpu) -> None:
    for node, gpus in claim.gpus:
        free.cpus[node] -= max(level.cores - have.cores, 0.0) * gpus
        free.memory_gib[node] -= max(level.memory_gib - have.memory_gib, 0.0) * gpus


def _short(free: Room) -> set[int]:
    """Nodes of which more is promised than there is now."""
    short = (free.cpus < -ROUNDING) | (free.memory_gib < -ROUNDING)
    return {*np.flatnonzero(short).tolist()}


def _smaller(one: PerGpu, other: PerGpu) -> PerGpu:
    return PerGpu(min(one.cores, other.cores), min(one.memory_gib, other.memory_gib))
