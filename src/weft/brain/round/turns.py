"""Turns: who could not be seated joins somebody who is, where together they do more.

It comes last in a round: seats of one's own, by a resize of others or by their end, are better than
company. And it is undone first: a companion gets GPUs of its own as soon as there are some.

Members of a party have one width, one node, one queue and one priority. So a party is charged to
its queue like a job, and nobody is slowed by one who matters less.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from weft.brain.round.outcome import Granted, Joined, Outcome
from weft.brain.round.session import Session
from weft.brain.round.worth import restart_seconds
from weft.brain.state.brain_state import BrainState
from weft.brain.state.slowdown_cap import slowdown_cap
from weft.brain.state.turns import Refused, signature
from weft.model.ids import TenantId
from weft.model.snapshot import Bools, Ints
from weft.model.state import State
from weft.policy.place.room import ROUNDING, host_cpus, host_memory_gib
from weft.policy.share.guards import Guard
from weft.policy.share.joining import Guest, Parties, Refusal
from weft.policy.share.sharing import Sharing

NO_TENANT = TenantId("")
SITTING = (State.STARTING, State.RUNNING)
Peers = tuple[int, int, int, TenantId]
"""GPUs, priority, queue and, where it matters, tenant: who has these in common may take turns."""


def take_turns(session: Session, outcome: Outcome, sharing: Sharing) -> None:
    """Add to the outcome who joins whom, and who gets GPUs of its own."""
    _Turns(session, outcome, sharing).settle()


class _Turns:
    def __init__(self, session: Session, outcome: Outcome, sharing: Sharing) -> None:
        self._session, self._outcome, self._sharing = session, outcome, sharing
        self._state: BrainState = session.state
        self._company = session.state.seating.company
        self._busy = outcome.changing
        self._full: set[Peers] = set()

    def settle(self) -> None:
        self._state.turns.refused.clear()
        self._part()
        waiting = self._waiting()
        if not waiting:
            return
        hosts: dict[Peers, list[int]] = defaultdict(list)
        for lead in self._leads():
            hosts[self._peers(lead, int(self._state.jobs.width[lead]))].append(lead)
        for peers, slots in waiting.items():
            if hosts[peers]:
                self._join(slots, hosts[peers])
            else:
                self._note(slots, Guard.FULL if peers in self._full else Guard.NOBODY)
        if self._outcome.grants:
            self._outcome.wake_by(self._session.now + self._session.recipe.rounds.spacing_seconds)
        self._outcome.wait_no_more([one.slot for one in self._outcome.joins])

    # --- those who wait -----------------------------------------------------------------------

    def _waiting(self) -> dict[Peers, list[int]]:
        """By what they need to have in common with others, first in rank first."""
        found: dict[Peers, list[int]] = defaultdict(list)
        jobs, most = self._session.snapshot.jobs, self._sharing.most_asked
        willing = self._outcome.waiting[self._may_share(self._outcome.waiting)]
        gives_way = jobs.yields[willing] & jobs.preemptible[willing]
        overdue = np.isin(willing, sorted(self._session.overdue))
        self._note(willing[~gives_way][:most].tolist(), Guard.FIRM)
        self._note(willing[overdue & gives_way][:most].tolist(), Guard.OVERDUE)
        for slot in willing[gives_way & ~overdue][:most].tolist():
            found[self._peers(slot, int(jobs.asked_gpus[slot]))].append(slot)
        return found

    def _may_share(self, slots: Ints) -> Bools:
        return self._session.snapshot.jobs.shareable[slots]

    def _peers(self, slot: int, gpus: int) -> Peers:
        jobs = self._session.snapshot.jobs
        tenant = NO_TENANT if self._sharing.mixes_tenants else self._state.spec(slot).tenant
        return gpus, int(jobs.priority[slot]), int(jobs.queue[slot]), tenant

    # --- those who sit ------------------------------------------------------------------------

    def _leads(self) -> Iterator[int]:
        """Who may be joined: it sits on one node that can be used, as it asked, and stays so."""
        jobs, state = self._session.snapshot.jobs, self._state
        sitting = np.flatnonzero(jobs.active & np.isin(jobs.state, SITTING))
        sitting = sitting[self._may_share(sitting)]
        for slot in sitting[np.argsort(jobs.seq[sitting])].tolist():
            if self._company.is_companion(slot):
                continue
            as_asked = jobs.width[slot] == jobs.asked_gpus[slot]
            fed = jobs.fed_cores[slot] or jobs.fed_gib[slot] or slot in state.seating.feeding
            members = self._company.members(slot)
            if not as_asked or fed:
                continue
            if len(members) >= self._sharing.most_members:
                self._full.add(self._peers(slot, int(jobs.width[slot])))
                continue
            nodes = state.placement(slot).nodes
            usable = len(nodes) == 1 and self._session.fabric.usable[state.node_row[nodes[0]]]
            stays = all(jobs.state[member] in SITTING for member in members)
            if usable and stays and self._busy.isdisjoint(members):
                yield slot

    def _join(self, slots: list[int], leads: list[int]) -> None:
        """Each of these, in its turn, joins the best of these parties."""
        state = self._state
        nodes = np.array([state.node_row[state.placement(lead).nodes[0]] for lead in leads])
        parties = Parties(
            [[self._guest(member) for member in self._company.members(lead)] for lead in leads],
            [self._gpu_memory_gib(node) for node in nodes.tolist()],
            self._sharing.limits,
            state.turns.experience,
        )
        for slot in slots:
            guest = self._guest(slot)
            row = self._choice(parties, leads, slot, self._possible(slot, nodes))
            if row is not None:
                forecast = parties.forecast(row, guest)
                self._outcome.joins.append(Joined(slot, leads[row], forecast, guest.cap))
                parties.join(row, guest)
                self._take_host(slot, int(nodes[row]))

    def _choice(self, parties: Parties, leads: list[int], slot: int, possible: Bools) -> int | None:
        """The best party that does not rest; where there is none it is noted why."""
        if not possible.any():
            self._note([slot], Guard.ROOM)
            return None
        guest, rested = self._guest(slot), None
        while (row := parties.best(guest, possible)) is not None:
            if not self._rests(slot, leads[row]):
                return row
            possible[row] = False
            rested = leads[row] if rested is None else rested
        if rested is None:
            self._note_refusal(slot, leads, parties.refusal(guest, possible))
        else:
            self._note([slot], Guard.RESTS, rested)
        return None

    def _note_refusal(self, slot: int, leads: list[int], refusal: Refusal | None) -> None:
        if refusal is None:  # others of this round have joined them
            self._note([slot], Guard.FULL)
        else:
            self._note([slot], refusal.guard, leads[refusal.party])

    def _note(self, slots: Sequence[int], guard: Guard, lead: int | None = None) -> None:
        for slot in slots:
            self._state.turns.refused[slot] = Refused(lead, guard)

    def _guest(self, slot: int) -> Guest:
        claim = self._state.spec(slot).stages
        assert claim is not None
        return Guest(claim.profile, slowdown_cap(self._state, slot, self._sharing))

    def _possible(self, slot: int, nodes: Ints) -> Bools:
        """On which of these nodes the job could sit, with its cores and its memory."""
        session, kind = self._session, self._session.kind(slot)
        suits = np.zeros(len(nodes), bool)
        for tier in session.fabric.site(kind).tiers:
            suits |= tier.capacity[nodes] > 0
        gpus = int(session.snapshot.jobs.asked_gpus[slot])
        cpus = session.room.cpus[nodes] + ROUNDING >= host_cpus(kind, gpus)
        memory = session.room.memory_gib[nodes] + ROUNDING >= host_memory_gib(kind, gpus)
        found: Bools = suits & cpus & memory
        return found

    def _take_host(self, slot: int, node: int) -> None:
        session, kind = self._session, self._session.kind(slot)
        gpus = int(session.snapshot.jobs.asked_gpus[slot])
        session.room.cpus[node] -= host_cpus(kind, gpus)
        session.room.memory_gib[node] -= host_memory_gib(kind, gpus)

    def _rests(self, slot: int, lead: int) -> bool:
        """Whether such a party has done harm a while ago."""
        state, joined = self._state, [one.slot for one in self._outcome.joins if one.lead == lead]
        members = [*self._company.members(lead), *joined, slot]
        kind = signature([state.spec(member).stages for member in members])
        return state.turns.experience.rests(kind, self._session.now)

    def _gpu_memory_gib(self, node: int) -> float:
        """What each GPU there has; without a bound where nobody counts it."""
        memory_gib = self._state.node_table.specs[node].gpu.memory_gib
        return np.inf if memory_gib is None else memory_gib

    # --- parting ------------------------------------------------------------------------------

    def _part(self) -> None:
        """Companions get GPUs of their own where some are left, those who lose most first."""
        session, state = self._session, self._state
        if not self._company or not session.free:
            return
        slowed = sorted(
            (-state.turn(slot).slowdown, int(state.jobs.seq[slot]), slot)
            for lead in self._company.leads()
            for slot in self._company.companions(lead)
            if state.state_of(slot) is State.RUNNING
            and slot not in self._busy
            and state.jobs.yields[slot]
        )
        for negated, _, slot in slowed:
            if self._is_worth_it(slot, -negated):
                self._seat_alone(slot)
            else:
                self._look_again(slot, -negated)

    def _seat_alone(self, slot: int) -> None:
        session, width = self._session, int(self._state.jobs.width[slot])
        kind = session.kind(slot)
        offer = session.offer(slot, kind, width)
        if offer is None or not self._lawful(slot, width):
            return
        granted = Granted(slot, width, offer.shares)
        session.take(granted, kind)
        self._outcome.moves.append(granted)
        self._busy.update(self._company.members(slot))

    def _lawful(self, slot: int, width: int) -> bool:
        """Whether its queue may hold so much more than the party has."""
        session = self._session
        return not session.restricted or session.growth_room(slot) >= width

    def _is_worth_it(self, slot: int, slowdown: float) -> bool:
        """Whether what is left takes so much longer in company that a restart pays.

        Whose length nobody knows is taken to have as much before it as behind it.
        """
        snapshot = self._session.snapshot
        ran = snapshot.now - float(snapshot.jobs.started[slot])
        left = self._session.remaining_seconds(slot)
        left = ran / slowdown if np.isnan(left) else left
        return left * (slowdown - 1.0) >= self._least_saved(slot)

    def _least_saved(self, slot: int) -> float:
        """Seconds that GPUs of its own have to save it."""
        price = float(restart_seconds(self._session.snapshot, np.array([slot]))[0])
        return self._sharing.worth * price

    def _look_again(self, slot: int, slowdown: float) -> None:
        """Whose length nobody knows has ever more before it: nothing else may happen until then."""
        session = self._session
        if slowdown <= 1.0 or not np.isnan(session.remaining_seconds(slot)):
            return
        lost = float(session.snapshot.jobs.saves_every_seconds[slot]) / 2.0
        most = self._least_saved(slot) + self._sharing.worth * (lost if np.isfinite(lost) else 0.0)
        at = float(session.snapshot.jobs.started[slot]) + most * slowdown / (slowdown - 1.0)
        if at > session.now:
            self._outcome.wake_by(at)
