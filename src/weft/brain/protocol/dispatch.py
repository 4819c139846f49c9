"""Instructions about a job's processes, each with the change of state that goes before it.

Seats are held from the moment a job is told to start, and until the world says that they are free.
"""

from dataclasses import replace

from weft.brain.context import Context
from weft.brain.instruction import Preempt, Resize, Start, Stop
from weft.brain.protocol.outbox import Outbox
from weft.brain.protocol.pace import Pace
from weft.brain.round.outcome import Granted
from weft.brain.state.party_name import party_of
from weft.model.decision import Assignment
from weft.model.ids import JobId
from weft.model.kind import Kind
from weft.model.placement import Placement, Seat
from weft.model.plan import AS_WRITTEN
from weft.model.state import State
from weft.policy.place.room import Share, host_cpus, host_memory_gib, in_pieces


class Dispatch:
    """Tells the world to start and to stop, once and again."""

    def __init__(self, context: Context, outbox: Outbox, *, pace: Pace) -> None:
        self._context = context
        self._outbox = outbox
        self._pace = pace

    def start(self, slot: int, assignment: Assignment) -> None:
        """A new incarnation on seats that it holds."""
        state = self._context.state
        state.move(slot, State.STARTING)
        state.plans[slot] = assignment.plan
        state.waits.book(slot, self._context.now, 0)
        state.jobs.epoch[slot] += 1
        state.jobs.serial[slot] = state.jobs.fed_serial[slot] = 0
        self._outbox.ask_to_start_or_stop(slot, Start(*self._who(slot), assignment))

    def started(self, slot: int) -> None:
        """Its processes are there, by an answer or by a look."""
        self._context.state.move(slot, State.RUNNING)
        self._context.state.set_running(slot, self._context.now)
        self._outbox.listen(slot)
        shares = self._context.state.seating.company.is_companion(slot)
        if self._context.recipe.rounds.after_starts or shares:  # GPUs may have come free meanwhile
            self._pace.want()
        self._pace.want_when_they_may_yield([slot])

    def learn_yields(self, slot: int, yields: bool) -> None:
        """Whether it gives way to those who rank before it, which may be what they wait for."""
        state = self._context.state
        if yields and not state.jobs.yields[slot] and self._pace.someone_waits:
            self._pace.want()
        state.jobs.yields[slot] = yields
        state.jobs.preemptible[slot] = yields or state.spec(slot).preemptible
        self._pace.want_when_they_may_yield([slot])

    def preempt(self, slot: int, beneficiary: int) -> None:
        """It gives up its seats for another job, or for others of its own."""
        state = self._context.state
        state.jobs.preemptions[slot] += 1
        state.spare_later(slot, self._context.now)
        self._leave(slot, State.QUEUED)
        instruction = Preempt(*self._who(slot), state.spec(beneficiary).id)
        self._outbox.ask_to_start_or_stop(slot, instruction)

    def stop(self, slot: int, *, after: State, why: str) -> None:
        """It ends, and `after` that waits again or is over."""
        self._leave(slot, after)
        self._outbox.ask_to_start_or_stop(slot, Stop(*self._who(slot), why))

    def repeat_start(self, slot: int) -> None:
        assignment = self._context.state.seating.assignments[slot]
        assert assignment is not None
        self._outbox.ask(slot, Start(*self._who(slot), assignment))

    def repeat_stop(self, slot: int) -> None:
        self._outbox.ask(slot, Stop(*self._who(slot), "asked before"))

    def say_resize(self, slot: int, assignment: Assignment) -> None:
        """The resize that is under way, for the first time or again."""
        serial = int(self._context.state.jobs.serial[slot])
        self._outbox.ask(slot, Resize(*self._who(slot), assignment, serial))

    def assignment(self, granted: Granted) -> Assignment:
        """What a grant means in seats; it computes as it did before, where that still fits."""
        slot, before = granted.slot, self._context.state.plans[granted.slot]
        plan = granted.plan or (before if before.fits_width(granted.width) else AS_WRITTEN)
        seats = self.seats(slot, granted.shares, 0, cores=granted.cores)
        return Assignment(granted.width, Placement(seats), plan)

    def beside(self, slot: int, lead: int) -> Assignment:
        """Seats of its own on the nodes where the lead sits, to take turns there."""
        state = self._context.state
        shares = tuple(
            (state.node_row[node], gpus)
            for node, gpus in state.placement(lead).gpus_by_node.items()
        )
        placement = Placement(self.seats(slot, shares, 0))
        party = party_of(state, lead)
        return Assignment(placement.width, placement, state.plans[slot], party)

    def seats(
        self, slot: int, shares: tuple[Share, ...], first: int, cores: float | None = None
    ) -> tuple[Seat, ...]:
        """Seats for these shares, in pieces where the job may be resized, numbered from `first`.

        With other `cores` beside each GPU than it asked for, where that was decided.
        """
        state = self._context.state
        kind, names = state.kinds[int(state.jobs.kind[slot])], state.node_ids
        if cores is not None:
            kind = replace(kind, cpus_per_gpu=cores)
        grain = self._grain(slot, kind)
        if grain:
            shares = in_pieces(shares, grain)
        state.jobs.next_seat[slot] = first + len(shares)
        return tuple(
            Seat(
                names[node],
                gpus,
                host_cpus(kind, gpus),
                host_memory_gib(kind, gpus),
                number=number,
            )
            for number, (node, gpus) in enumerate(shares, start=first)
        )

    def _grain(self, slot: int, kind: Kind) -> int:
        """GPUs of a seat where a job may be resized; 0: all that it has on a node."""
        resizing = self._context.recipe.resizing
        if not kind.width.elastic:
            return 0
        if resizing is not None:
            return resizing.grain_gpus
        splits = self._context.state.spec(slot).splits
        planned = splits is not None and not splits.families
        return 1 if planned and self._context.settings.single_seats else 0

    def _leave(self, slot: int, after: State) -> None:
        state = self._context.state
        state.after_stop[slot] = after
        state.pace_company_anew(slot, self._context.now, leaves=True)
        state.move(slot, State.STOPPING)
        state.seating.mark_releasing(slot)

    def _who(self, slot: int) -> tuple[JobId, int]:
        state = self._context.state
        return state.spec(slot).id, int(state.jobs.epoch[slot])
