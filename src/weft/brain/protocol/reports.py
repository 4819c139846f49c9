"""What a look at a job shows.

The world is the truth: where a look shows something else than the brain believes, the belief is
mended, and what runs without anybody having decided it is adopted or ended.
"""

from weft.brain.context import Context
from weft.brain.event import JobReported, Past, PastRecalled, Phase
from weft.brain.instruction import Stop
from weft.brain.protocol.dispatch import Dispatch
from weft.brain.protocol.feeding import Feeding
from weft.brain.protocol.node_events import Nodes
from weft.brain.protocol.outbox import Outbox
from weft.brain.protocol.resize import Resizes, set_plan
from weft.brain.state.party_name import lead_of_party
from weft.model.decision import NO_PARTY, Assignment
from weft.model.host import PerGpu
from weft.model.ids import PartyId
from weft.model.placement import Placement
from weft.model.state import State
from weft.policy.plans.planning import Planning


class Reports:
    """Brings what is believed of a job in line with what there is of it."""

    def __init__(
        self,
        context: Context,
        outbox: Outbox,
        *,
        dispatch: Dispatch,
        resizes: Resizes,
        feeding: Feeding,
        nodes: Nodes,
    ) -> None:
        self._context = context
        self._outbox = outbox
        self._dispatch = dispatch
        self._resizes = resizes
        self._feeding = feeding
        self._nodes = nodes

    def reported(self, event: JobReported) -> None:
        state = self._context.state
        slot = state.slot_of.get(event.job)
        epoch = -1 if slot is None else int(state.jobs.epoch[slot])
        if slot is None or event.epoch > epoch:
            self._meet_stranger(event, slot)
        elif event.epoch == epoch and state.state_of(slot).holds_seats:
            self._compare(slot, event)
        elif event.phase in (Phase.STARTING, Phase.RUNNING):
            self._outbox.say(Stop(event.job, event.epoch, "superseded"))

    # --- an incarnation that is known ---------------------------------------------------------

    def _compare(self, slot: int, event: JobReported) -> None:
        """The world was looked at: bring what we believe in line with it."""
        status = self._context.state.state_of(slot)
        if event.live is not None:
            self._resizes.learn_live(slot, event.live)
        if event.tunable is not None:
            self._feeding.learn_tunable(slot, event.tunable)
        if event.yields is not None:
            self._dispatch.learn_yields(slot, event.yields)
        if status is State.RESIZING and event.phase is Phase.RUNNING:
            self._compare_resize(slot, event)
        elif event.phase is Phase.ABSENT:
            self._found_absent(slot)
        elif status is State.STOPPING:
            self._compare_stop(slot, event.phase)
        elif event.phase is Phase.RUNNING:
            self._compare_run(slot, event)
        else:
            self._outbox.expect_answer(slot)

    def _compare_stop(self, slot: int, phase: Phase) -> None:
        if phase is Phase.STOPPING:
            self._outbox.expect_answer(slot)
        else:
            self._dispatch.repeat_stop(slot)

    def _compare_run(self, slot: int, event: JobReported) -> None:
        """It runs, which may be news; seats that the world no longer has are let go."""
        state = self._context.state
        if state.state_of(slot) is State.STARTING:
            self._dispatch.started(slot)
        self._note_work(slot, event)
        self._outbox.listen(slot)
        is_news = event.placement is not None and event.serial == int(state.jobs.serial[slot])
        if event.placement is not None and is_news:
            if event.plan is not None:
                set_plan(state, slot, event.plan)
            seen = event.placement.numbered().numbers
            if state.placement(slot).numbers - seen:
                self._resizes.settle_on(slot, event.placement)
        if event.fed is not None:
            self._feeding.compare(slot, event.fed)

    def _compare_resize(self, slot: int, event: JobReported) -> None:
        """Progress is no answer; a look shows either what was asked for or that it was not done."""
        self._note_work(slot, event)
        if event.placement is None:
            return
        state = self._context.state
        if event.serial == int(state.jobs.serial[slot]):
            if event.plan == (wanted := state.seating.resizes[slot].target.plan):
                set_plan(state, slot, wanted)
            self._resizes.shun(slot)
            self._resizes.settle_on(slot, event.placement)
        else:
            self._resizes.ask_again(slot)

    def _note_work(self, slot: int, event: JobReported) -> None:
        state = self._context.state
        state.settle(slot, self._context.now)
        state.jobs.work_done[slot] = event.work_done

    def _found_absent(self, slot: int) -> None:
        """Nothing was there when the world looked; this may be old news, so it frees nothing.

        What must go is stopped once more: the answer to that is given for good.
        """
        status = self._context.state.state_of(slot)
        if status is State.STARTING:
            self._dispatch.repeat_start(slot)
        elif status is State.STOPPING:
            self._dispatch.repeat_stop(slot)
        else:
            self._dispatch.stop(slot, after=State.QUEUED, why="not found")

    # --- an incarnation that is not -----------------------------------------------------------

    def _meet_stranger(self, event: JobReported, slot: int | None) -> None:
        """An incarnation we do not know: adopt it where that is safe, else it must go."""
        state = self._context.state
        waits = slot is not None and state.state_of(slot) is State.QUEUED
        if slot is not None and waits:
            if event.past is not None and state.jobs.epoch[slot] == 0:
                state.recall(slot, event.past, self._context.now)
                self._recall_restarts(slot, event.past)
            if event.plan is not None:
                state.plans[slot] = event.plan
            state.jobs.epoch[slot] = event.epoch
            state.jobs.work_done[slot] = event.work_done
        if event.phase is Phase.ABSENT:
            return
        placement = event.placement
        if slot is not None and waits and placement and self._could_be(slot, placement):
            self._adopt(slot, event, placement.numbered())
        else:
            self._outbox.say(Stop(event.job, event.epoch, "unknown"))

    def _recall_restarts(self, slot: int, past: Past) -> None:
        """Each stop for others, or for a plan, was a restart that was paid for."""
        state, planning = self._context.state, self._context.recipe.planning
        spec = state.spec(slot)
        if planning is None or spec.splits is None:
            return
        seconds, gpus = self._restart_seconds(planning), spec.width.asked_gpus
        state.plan_book.recall(slot, past.preemptions, gpus, seconds)

    def recalled(self, event: PastRecalled) -> None:
        """What jobs had that are over pays for restarts, of which theirs have taken a part."""
        book, planning = self._context.state.plan_book, self._context.recipe.planning
        if planning is not None:
            paid = event.restarted_gpus * self._restart_seconds(planning)
            book.recall_ended(event.served_gpu_seconds, paid)

    def _restart_seconds(self, planning: Planning) -> float:
        state = self._context.state
        measured = state.start_cost.seconds + state.stop_cost.seconds
        return max(measured, planning.least_restart_seconds)

    def _could_be(self, slot: int, placement: Placement) -> bool:
        """Whether a decision of ours could have said this: seats, on known nodes, and in range."""
        state, width = self._context.state, self._context.state.spec(slot).width
        known = all(node in state.node_row for node in placement.nodes)
        in_range = width.min_gpus <= placement.width <= width.max_gpus
        return bool(placement.seats) and known and in_range

    def _lead_of(self, slot: int, event: JobReported, placement: Placement) -> int | None:
        """Who holds the seats already on which this one takes turns."""
        state = self._context.state
        lead = lead_of_party(state, event.party or PartyId(f"{event.job}/{event.epoch}"))
        if lead is None or state.placement(lead).gpus_by_node != placement.gpus_by_node:
            return None
        return lead

    def _adopt(self, slot: int, event: JobReported, placement: Placement) -> None:
        """It holds its seats whether we like it or not; where they are not there, it must go."""
        state = self._context.state
        own = PartyId(f"{event.job}/{event.epoch}")  # of one that was started alone
        party = NO_PARTY if event.party == own else event.party
        assignment = Assignment(placement.width, placement, state.plans[slot], party)
        lead = self._lead_of(slot, event, placement)
        state.seating.seat(slot, assignment, pledged=False, lead=lead)
        state.jobs.serial[slot] = event.serial
        state.jobs.next_seat[slot] = max(event.next_seat, max(placement.numbers) + 1)
        state.jobs.live[slot] = bool(event.live)
        state.jobs.tunable[slot] = bool(event.tunable)
        if event.yields is not None:
            self._dispatch.learn_yields(slot, event.yields)
        if event.fed is not None:
            state.jobs.fed_serial[slot] = event.fed.serial
            state.seating.feed(slot, PerGpu(event.fed.cores, event.fed.memory_gib))
        state.waits.book(slot, self._context.now, 0)
        state.move(slot, State.STARTING)
        if event.phase is Phase.STOPPING:
            self._dispatch.stop(slot, after=State.QUEUED, why="asked before")
        elif event.phase is Phase.RUNNING:
            self._dispatch.started(slot)
        else:
            self._outbox.expect_answer(slot)
        for row in state.nodes_of(slot):
            self._nodes.make_room(row)
