"""Nodes that come, change and go, and queues that do: what there is to give away."""

from weft.brain.context import Context
from weft.brain.event import NodeAdded, NodeChanged, NodeLost, QueueChanged
from weft.brain.protocol.admission import NO_QUEUE, Admission
from weft.brain.protocol.dispatch import Dispatch
from weft.brain.protocol.holding import Holding
from weft.brain.protocol.pace import Pace
from weft.brain.protocol.resize import Resizes, has_fewer_gpus, left_of
from weft.brain.state.waits import PENDING
from weft.model.state import State
from weft.policy.host.shares import fair_of

SITTING = (State.STARTING, State.RUNNING, State.RESIZING)


class Nodes:
    """Follows the supply; who sits on what is gone must go, and nobody waits for it."""

    def __init__(
        self,
        context: Context,
        *,
        pace: Pace,
        dispatch: Dispatch,
        admission: Admission,
        resizes: Resizes,
        holding: Holding,
    ) -> None:
        self._context = context
        self._holding = holding
        self._pace = pace
        self._dispatch = dispatch
        self._admission = admission
        self._resizes = resizes

    def put(self, event: NodeAdded | NodeChanged) -> None:
        self._pace.supply_grew = True
        state = self._context.state
        row = state.put_node(event.node)
        self._share_anew()
        self._withdraw(row)
        if state.seating.note_shrunk(row):
            self._relieve(row)
        self._look_around()
        self._pace.want()

    def opened_or_closed(self, row: int) -> None:
        """A node was set aside, or is no more: what was promised there is promised no longer."""
        self._pace.supply_grew = True
        self._share_anew()
        self._withdraw(row)
        self._look_around()
        self._pace.want()

    def lost(self, event: NodeLost) -> None:
        state = self._context.state
        row = state.node_row.get(event.node)
        if row is None:
            return
        state.lose_node(row)
        self._share_anew()
        self._clear(row)
        self._look_around()
        self._pace.want()

    def queue_changed(self, event: QueueChanged) -> None:
        state = self._context.state
        self._pace.supply_grew = True
        state.set_tree(state.tree.with_queue(event.queue))
        self._admission.withdraw_pledges(list(state.seating.admitted))
        for slot in state.slot_of.values():
            if state.jobs.reason[slot] == NO_QUEUE and state.jobs.queue[slot] >= 0:
                state.waits.book(slot, self._context.now, PENDING)
        self._pace.want()

    def make_room(self, row: int) -> None:
        """Somebody was found there: if the node is not, or is too small for all, some must go."""
        state = self._context.state
        if not state.nodes.present[row]:
            self._clear(row)
        elif state.seating.note_shrunk(row):
            self._withdraw(row)
            self._relieve(row)

    def _look_around(self) -> None:
        """Whether those who keep off nodes still have others to go to."""
        for slot in self._context.state.failures.avoiding:
            self._context.state.tell_kind(slot)

    def _share_anew(self) -> None:
        """A GPU's fair share may be another one."""
        if self._context.recipe.host is not None:
            self._context.state.set_fair(fair_of(self._context.state.fabric.nodes))

    def _withdraw(self, row: int) -> None:
        """Nothing that was promised there holds any more."""
        self._admission.withdraw_moves(row)
        self._admission.withdraw_pledges(self._context.state.seating.parties_on(row))

    def _clear(self, row: int) -> None:
        """Jobs that can train on without the node shrink; the others stop."""
        state = self._context.state
        slots, name = state.seating.parties_on(row), state.node_ids[row]
        self._withdraw(row)
        for slot in slots:
            if not self._shrinks(slot, name) and state.state_of(slot) in SITTING:
                self._holding.keep(slot, self._holding.seats(slot))
                self._dispatch.stop(slot, after=State.QUEUED, why=f"node {name} lost")

    def _shrinks(self, slot: int, node: str) -> bool:
        """Whether it can train on without the node; then it is asked to."""
        left = left_of(self._context.state, slot, {node})
        if left is not None:
            self._resizes.ask(slot, left)
        return left is not None

    def _relieve(self, row: int) -> None:
        """As few as it takes go: those that have not begun first, then the latest started. Who can
        train on without the node shrinks, the others stop."""
        state, seating = self._context.state, self._context.state.seating
        jobs = state.jobs
        over = seating.staying_on(row) - int(state.nodes.gpus[row])
        seated = [
            (
                state.state_of(slot) is not State.STARTING,
                -float(jobs.started[slot]),
                -int(jobs.seq[slot]),
                slot,
            )
            for slot in seating.parties_on(row)
            if state.state_of(slot) in SITTING
        ]
        name = state.node_ids[row]
        for *_, slot in sorted(seated):
            if over <= 0:
                return
            gpus = seating.gpus_staying(slot, row)
            over -= gpus
            if not gpus or self._shrinks(slot, name):
                continue
            for member in reversed(seating.company.members(slot)):
                if state.state_of(member) in SITTING:
                    self._dispatch.stop(member, after=State.QUEUED, why=has_fewer_gpus(name))
