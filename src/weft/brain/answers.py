"""What the world says: answers to orders, looks at jobs, and nodes that come and go.

The world is the truth: where a look shows something else than the brain believes, the belief is
mended, and what runs without anybody having decided it is adopted or ended.
"""

from weft.brain import resize
from weft.brain.event import (
    InstructionDone,
    InstructionRefused,
    JobReported,
    NodeAdded,
    NodeChanged,
    NodeLost,
    Phase,
    Verb,
)
from weft.brain.feeding import Feeding
from weft.brain.instruction import Resize, Start, Stop
from weft.brain.orders import REFUSED, RELEASING, SITTING
from weft.brain.state import PENDING
from weft.model.decision import Assignment
from weft.model.host import PerGpu
from weft.model.placement import Placement
from weft.model.state import State


class Answers(Feeding):
    """Brings what is believed in line with what there is."""

    def _on_reported(self, event: JobReported) -> None:
        slot = self.state.slot_of.get(event.job)
        epoch = -1 if slot is None else int(self.state.jobs.epoch[slot])
        if slot is None or event.epoch > epoch:
            self._meet_stranger(event, slot)
        elif event.epoch == epoch and self.state.state_of(slot).holds_seats:
            self._compare(slot, event)
        elif event.phase in (Phase.STARTING, Phase.RUNNING):
            self._out.append(Stop(event.job, event.epoch, "superseded"))

    def _compare(self, slot: int, event: JobReported) -> None:
        """The world was looked at: bring what we believe in line with it."""
        state = self.state.state_of(slot)
        if event.live is not None:
            self._learn_live(slot, event.live)
        if event.tunable is not None:
            self._learn_tunable(slot, event.tunable)
        if state is State.RESIZING and event.phase is Phase.RUNNING:
            self._compare_resize(slot, event)
            return
        self._forget(slot)
        if event.phase is Phase.ABSENT:
            self._found_absent(slot, state, event)
        elif state is State.STOPPING:
            if event.phase is not Phase.STOPPING:
                self._out.append(Stop(event.job, event.epoch, "asked before"))
            self._expect_answer(slot)
        elif event.phase is Phase.RUNNING:
            if state is State.STARTING:
                self._started(slot)
            self.state.settle(slot, self.now)
            self.state.jobs.work_done[slot] = event.work_done
            self._listen(slot)
            self._follow(slot, event)
            if event.fed is not None:
                self._compare_fed(slot, event.fed)
        else:
            self._expect_answer(slot)

    def _compare_resize(self, slot: int, event: JobReported) -> None:
        """Progress is no answer; a look shows either what was asked for or that it was not done."""
        self.state.settle(slot, self.now)
        self.state.jobs.work_done[slot] = event.work_done
        if event.placement is None:
            return
        if event.serial == int(self.state.jobs.serial[slot]):
            self._settle_on(slot, event.placement)
            return
        target = self.state.resizes[slot].target
        self._out.append(Resize(event.job, event.epoch, target, int(self.state.jobs.serial[slot])))
        self._expect_answer(slot)

    def _follow(self, slot: int, event: JobReported) -> None:
        """Seats that the world no longer has are let go, unless this is old news."""
        if event.placement is None or event.serial != int(self.state.jobs.serial[slot]):
            return
        if self.state.placement(slot).numbers - event.placement.numbered().numbers:
            self._settle_on(slot, event.placement)

    def _settle_on(self, slot: int, found: Placement) -> None:
        """The job has these of its seats; with too few of them it cannot go on."""
        left = self.state.placement(slot).only(found.numbered().numbers)
        if not resize.can_train_on(self.state, slot, left):
            self._stop(slot, after=State.QUEUED, why="too few of its workers are left")
            return
        self._settled(slot, left.numbers)
        self._want_round()

    def _learn_live(self, slot: int, live: bool) -> None:
        if live and not self.state.jobs.live[slot] and self.recipe.resizing is not None:
            self._want_round()
        self.state.jobs.live[slot] = live

    def _found_absent(self, slot: int, state: State, event: JobReported) -> None:
        """Nothing was there when the world looked; this may be old news, so it frees nothing.

        What must go is stopped once more: the answer to that is given for good.
        """
        if state is State.STARTING:
            assignment = self.state.assignments[slot]
            assert assignment is not None
            self._out.append(Start(event.job, event.epoch, assignment))
            self._expect_answer(slot)
        elif state is State.STOPPING:
            self._out.append(Stop(event.job, event.epoch, "asked before"))
            self._expect_answer(slot)
        else:
            self._stop(slot, after=State.QUEUED, why="not found")

    def _meet_stranger(self, event: JobReported, slot: int | None) -> None:
        """An incarnation we do not know: adopt it where that is safe, else it must go."""
        waits = slot is not None and self.state.state_of(slot) is State.QUEUED
        if slot is not None and waits:
            if event.past is not None and self.state.jobs.epoch[slot] == 0:
                self.state.recall(slot, event.past)
            self.state.jobs.epoch[slot] = event.epoch
            self.state.jobs.work_done[slot] = event.work_done
        if event.phase is Phase.ABSENT:
            return
        placement = event.placement
        if slot is not None and waits and placement and self._could_be(slot, placement):
            self._adopt(slot, event, placement)
        else:
            self._out.append(Stop(event.job, event.epoch, "unknown"))

    def _could_be(self, slot: int, placement: Placement) -> bool:
        """Whether a decision of ours could have said this: known nodes and a width in range."""
        width = self.state.spec(slot).width
        return width.min_gpus <= placement.width <= width.max_gpus and all(
            node in self.state.node_row for node in placement.nodes
        )

    def _adopt(self, slot: int, event: JobReported, placement: Placement) -> None:
        """It holds its seats whether we like it or not; where they are not there, it must go."""
        state = self.state
        placement = placement.numbered()
        state.seat(slot, Assignment(placement.width, placement), pledged=False)
        state.jobs.serial[slot] = event.serial
        state.jobs.next_seat[slot] = max(event.next_seat, max(placement.numbers) + 1)
        state.jobs.live[slot] = bool(event.live)
        state.jobs.tunable[slot] = bool(event.tunable)
        if event.fed is not None:
            state.jobs.fed_serial[slot] = event.fed.serial
            state.feed(slot, PerGpu(event.fed.cores, event.fed.memory_gib))
        state.book_wait(slot, self.now, 0)
        state.move(slot, State.STARTING)
        if event.phase is Phase.STOPPING:
            self._stop(slot, after=State.QUEUED, why="asked before")
        elif event.phase is Phase.RUNNING:
            self._started(slot)
        else:
            self._expect_answer(slot)
        for row in state.nodes_of(slot):
            if not state.nodes.present[row]:
                self._clear_node(row, f"node {state.node_ids[row]} lost")
            elif state.note_shrunk(row):
                self._withdraw_pledges(state.jobs_on(row))
                self._relieve_node(row, f"node {state.node_ids[row]} has fewer GPUs")

    # --- answers ------------------------------------------------------------------------------

    def _on_done(self, event: InstructionDone) -> None:
        slot = self._current(event.job, event.epoch)
        if slot is None:
            return
        state = self.state.state_of(slot)
        if event.verb is Verb.START and state is State.STARTING:
            self.state.start_cost = self.state.start_cost.with_one(self._taken(slot))
            self._started(slot)
        elif event.verb in (Verb.PREEMPT, Verb.STOP) and state is State.STOPPING:
            self.state.stop_cost = self.state.stop_cost.with_one(self._taken(slot))
            self._stopped(slot, event.work_kept)
        elif event.verb is Verb.RESIZE:
            if event.paused_seconds is not None:
                self.state.resize_cost = self.state.resize_cost.with_one(event.paused_seconds)
            self._resized(slot, event.serial)
        elif event.verb is Verb.FEED:
            self._feeding_answered(slot, event.serial, done=True)

    def _resized(self, slot: int, serial: int) -> None:
        """What was asked for holds; if it was a brain before this one that asked, we look."""
        state = self.state
        if self._is_answer(slot, serial):
            self._settle_on(slot, state.resizes[slot].target.placement)
        elif state.state_of(slot) is State.RUNNING and int(state.jobs.serial[slot]) == serial:
            self._probe(slot)

    def _is_answer(self, slot: int, serial: int) -> bool:
        """Whether this speaks of the resize that is under way."""
        state = self.state
        return state.state_of(slot) is State.RESIZING and int(state.jobs.serial[slot]) == serial

    def _on_refused(self, event: InstructionRefused) -> None:
        slot = self._current(event.job, event.epoch)
        if slot is None:
            return
        if event.verb is Verb.RESIZE:
            self._resize_refused(slot, event.serial)
        elif event.verb is Verb.FEED:
            self._feeding_answered(slot, event.serial, done=False)
        if event.verb is not Verb.START or self.state.state_of(slot) is not State.STARTING:
            return
        self._free_seats(slot)
        self.state.jobs.refusals[slot] += 1
        refusals = int(self.state.jobs.refusals[slot])
        if refusals % self.settings.refusals_before_backoff:
            self._requeue(slot, PENDING, 0.0)
        else:
            self._requeue(
                slot, REFUSED, self._backoff(refusals // self.settings.refusals_before_backoff)
            )

    def _resize_refused(self, slot: int, serial: int) -> None:
        """Nothing was done: what it had is what it has."""
        if not self._is_answer(slot, serial):
            self._resized(slot, serial)
            return
        self._settled(slot, self.state.resizes[slot].before)

    def _stopped(self, slot: int, work_kept: float | None) -> None:
        self.state.set_idle(slot, self.now, work_kept)
        moved_to = self.state.next_assignment.pop(slot, None)
        self._free_seats(slot)
        after = self.state.after_stop[slot]
        if after is State.QUEUED and moved_to is not None and self._has_future_room(moved_to):
            self.state.move(slot, State.ADMITTED)
            self.state.begin_wait(slot, self.now, RELEASING)
            self.state.seat(slot, moved_to, pledged=True)
            self._start_admitted()
        elif after is State.QUEUED:
            self._requeue(slot, PENDING, 0.0)
        else:
            self._close(slot, after)

    def _has_future_room(self, assignment: Assignment) -> bool:
        """Whether these seats are promised to nobody else."""
        seats = self.state.seats
        count = self.state.seat_count
        for node, gpus in assignment.placement.gpus_by_node.items():
            row = self.state.node_row[node]
            here = (seats.node[:count] == row) & ~seats.releasing[:count]
            promised = int(seats.gpus[:count][here].sum())
            if promised + gpus > int(self.state.nodes.gpus[row]):
                return False
        return True

    def _backoff(self, times: int) -> float:
        settings = self.settings
        return min(settings.backoff_seconds * 2.0 ** (times - 1), settings.backoff_cap_seconds)

    # --- nodes --------------------------------------------------------------------------------

    def _on_node(self, event: NodeAdded | NodeChanged) -> None:
        self._supply_grew = True
        row = self.state.put_node(event.node)
        self._nodes_changed()
        self._withdraw_pledges(self.state.jobs_on(row))
        if self.state.note_shrunk(row):
            self._relieve_node(row, f"node {event.node.id} has fewer GPUs")
        self._want_round()

    def _on_node_lost(self, event: NodeLost) -> None:
        row = self.state.node_row.get(event.node)
        if row is None:
            return
        self.state.lose_node(row)
        self._nodes_changed()
        self._clear_node(row, f"node {event.node} lost")
        self._want_round()

    def _clear_node(self, row: int, why: str) -> None:
        """Jobs that can train on without the node shrink; the others stop."""
        slots = self.state.jobs_on(row)
        self._withdraw_pledges(slots)
        for slot in slots:
            left = resize.left_of(self.state, slot, {self.state.node_ids[row]})
            if left is not None:
                self._resize(slot, left)
            elif self.state.state_of(slot) in SITTING:
                self._stop(slot, after=State.QUEUED, why=why)

    def _relieve_node(self, row: int, why: str) -> None:
        """Stop as few as it takes: those that have not begun first, then the latest started."""
        state = self.state
        jobs = state.jobs
        over = state.staying_on(row) - int(state.nodes.gpus[row])
        seated = [
            (
                state.state_of(slot) is not State.STARTING,
                -float(jobs.started[slot]),
                -int(jobs.seq[slot]),
                slot,
            )
            for slot in state.jobs_on(row)
            if state.state_of(slot) in SITTING
        ]
        for *_, slot in sorted(seated):
            if over <= 0:
                return
            gpus = state.gpus_staying(slot, row)
            if gpus:
                over -= gpus
                self._stop(slot, after=State.QUEUED, why=why)
