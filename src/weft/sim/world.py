"""The simulated world: it obeys the brain's instructions and reports, in virtual time.

One heap orders everything by (time, kind, sequence), a total order, so a run is a function of its
inputs. A job's progress is continuous between events: work grows at the speed its placement
gives. The world keeps its own account of which GPUs are in use and of which incarnation runs, and
refuses what does not fit: a second guard that shares no code with the brain's.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from enum import IntEnum
from heapq import heappop, heappush
from typing import Any, TypeVar

import numpy as np

from weft.brain import invariants
from weft.brain.brain import Brain
from weft.brain.event import (
    Event,
    InstructionDone,
    InstructionRefused,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobReported,
    JobSubmitted,
    NodeAdded,
    NodeChanged,
    NodeLost,
    Phase,
    Tick,
    Verb,
)
from weft.brain.instruction import Instruction, Preempt, Probe, Resize, Start, Stop, Wake
from weft.brain.journal import Journal
from weft.brain.nodes import NodeTable
from weft.model.cluster import Cluster
from weft.model.ids import JobId, NodeId
from weft.model.job import Job
from weft.model.placement import Placement, Seat
from weft.model.state import State
from weft.sim.chance import Chance
from weft.sim.costs import COSTS, Costs
from weft.sim.faults import NO_FAULTS, Faults
from weft.sim.record import JobRecord, Record, Sitting
from weft.sim.run import Run

IDLE_TICKS = 2_000
SAMPLE_SECONDS = 60.0

T = TypeVar("T")


class Checks(IntEnum):
    """How much is verified after each event."""

    OFF = 0
    TOUCHED = 1
    FULL = 2


class _Turn(IntEnum):
    """Order of what happens at one instant; ticks come last, so a round sees everything."""

    WORLD = 0
    JOB = 1
    MESSAGE = 2
    SUBMISSION = 3
    TICK = 4


class World:
    """Runs one workload under one brain."""

    def __init__(  # noqa: PLR0913 - every part of a world can be replaced, by name
        self,
        cluster: Cluster,
        jobs: Sequence[Job],
        brain: Brain,
        *,
        costs: Costs = COSTS["free"],
        faults: Faults = NO_FAULTS,
        seed: int = 0,
        journal: Journal | None = None,
        checks: Checks = Checks.TOUCHED,
        keep_sittings: bool = False,
    ) -> None:
        self.brain = brain
        self.now = 0.0
        self.costs = costs
        self.faults = faults
        self.journal = journal or Journal()
        self.checks = checks
        self.keep_sittings = keep_sittings
        self.record = Record(brain.recipe.name, seed, cluster.gpus)
        self._chance = Chance(seed)
        self._jobs = sorted(jobs, key=lambda job: job.submit_seconds)
        self._heap: list[tuple[float, int, int, Callable[[Any], None], Any]] = []
        self._sequence = 0
        self._nodes = NodeTable()
        self._used: dict[NodeId, int] = {}
        self._specs: dict[JobId, Job] = {}
        self._runs: dict[JobId, Run] = {}
        self._saved: dict[JobId, float] = {}
        self._ended: dict[JobId, Event] = {}
        self._refused: dict[JobId, InstructionRefused] = {}
        self._messages = 0
        self._idle = 0
        self._sampled = float("-inf")
        self._over = 0
        for node in cluster.nodes:
            self._at(0.0, _Turn.WORLD, self._planned, NodeAdded(0.0, node))
        for event in faults.planned:
            self._at(event.at, _Turn.WORLD, self._planned, event)
        if self._jobs:
            self._at(self._jobs[0].submit_seconds, _Turn.SUBMISSION, self._submit, 0)

    # --- the loop -----------------------------------------------------------------------------

    def run(
        self,
        *,
        horizon_seconds: float = float("inf"),
        progress: Callable[[int, int], None] | None = None,
    ) -> Record:
        """Until nothing is left to happen, or the horizon."""
        heap = self._heap
        while heap and heap[0][0] <= horizon_seconds:
            self.step()
            if progress is not None and self.record.events % 2048 == 0:
                progress(self._over, len(self._jobs))
            if self._idle > IDLE_TICKS:
                break
        return self._close()

    def step(self) -> None:
        """The next thing that happens."""
        at, _, _, happen, what = heappop(self._heap)
        self.now = at
        happen(what)

    @property
    def pending(self) -> bool:
        return bool(self._heap)

    def running(self) -> list[Run]:
        return list(self._runs.values())

    def _at(self, at: float, turn: _Turn, happen: Callable[[T], None], what: T) -> None:
        self._sequence += 1
        heappush(self._heap, (at, turn, self._sequence, happen, what))

    def _deliver(self, event: Event) -> None:
        instructions = self.brain.handle(event)
        self.record.events += 1
        self.journal.record(event, instructions)
        if self.checks:
            self._check(event)
        for instruction in instructions:
            self._send(instruction)

    def _check(self, event: Event) -> None:
        state, decision = self.brain.state, self.brain.decision
        if self.checks is Checks.FULL or decision is not None:
            invariants.demand(invariants.check(state, decision))
        job = getattr(event, "job", None)
        if type(job) is str:
            invariants.demand(invariants.check_job(state, JobId(job)))

    # --- things that happen -------------------------------------------------------------------

    def _submit(self, index: int) -> None:
        self._charge()
        job = self._jobs[index]
        if index + 1 < len(self._jobs):
            at = max(self._jobs[index + 1].submit_seconds, self.now)
            self._at(at, _Turn.SUBMISSION, self._submit, index + 1)
        self._idle = 0
        if job.id not in self._specs:
            self._specs[job.id] = job
            asked = job.width.asked_gpus
            seconds = job.work.amount / (job.units_per_second(asked) if asked else 1.0)
            self.record.jobs[job.id] = JobRecord(job.id, job.tenant, asked, self.now, seconds)
        self._deliver(JobSubmitted(self.now, job))

    def _tick(self, at: float) -> None:
        if self.brain.round_is_due(at):
            self._charge()
        self._idle = 0 if self._runs else self._idle + 1
        self._deliver(Tick(at))
        self._sample()

    def _planned(self, event: Event) -> None:
        """Nodes, queues and cancellations: the world changes first, then word of it goes out."""
        if isinstance(event, NodeAdded | NodeChanged):
            self._nodes.put(event.node)
            self._used.setdefault(event.node.id, 0)
        elif isinstance(event, NodeLost):
            self._break_node(event.node)
        elif isinstance(event, JobCancelled):
            self._idle = 0
        self._deliver(event)

    def _break_node(self, node: NodeId) -> None:
        row = self._nodes.row.get(node)
        if row is None:
            return
        self._nodes.lose(row)
        for run in self._runs.values():
            if node in run.placement.nodes and not run.broken:
                self._lose_seats(run, node)

    def _lose_seats(self, run: Run, node: NodeId) -> None:
        """Whoever can trains on with the seats that are left; the others make no more progress."""
        left = Placement(tuple(seat for seat in run.placement.seats if seat.node != node))
        wide_enough = left.width >= run.job.width.min_gpus and 0 in left.numbers
        if not (run.live and run.phase is Phase.RUNNING and wide_enough):
            self._break(run)
            return
        self._call_off(run)
        self._vacate(run, run.placement.numbers - left.numbers)
        self._repace(run, left)
        self._tell(self._seen(run))

    def _break(self, run: Run) -> None:
        """Its processes make no more progress; what was not checkpointed is gone."""
        run.done = run.checkpointed(self.now)
        run.speed, run.mark, run.broken = 0.0, self.now, True
        run.version += 1

    def _started(self, run: Run) -> None:
        if run.phase is not Phase.STARTING or self._runs.get(run.job.id) is not run:
            return
        run.phase = Phase.RUNNING
        run.begin(self.now)
        if not run.broken:
            run.speed = self._nodes.units_per_second(run.job, run.placement)
            self._foresee(run)
        self._tell(InstructionDone(self.now, run.job.id, run.epoch, Verb.START))
        if run.live:
            self._tell(self._seen(run))

    def _foresee(self, run: Run) -> None:
        """When this run ends, if nothing else happens: done, or failed before."""
        run.version += 1
        left = max(run.job.work.amount - run.done, 0.0)
        run.finish_at = float("inf")
        if run.speed > 0:
            run.finish_at = max(self.now, run.mark) + left / run.speed
        fails = self.faults.job_failure and self.now < self.faults.until_seconds
        if fails and self._chance.uniform("fail", run.job.id, run.epoch) < self.faults.job_failure:
            share = self._chance.uniform("fail at", run.job.id, run.epoch)
            at = self.now + share * (run.finish_at - self.now)
            self._at(at, _Turn.JOB, self._fail, (run, run.version))
        elif run.finish_at < float("inf"):
            self._at(run.finish_at, _Turn.JOB, self._finish, (run, run.version))

    def _finish(self, what: tuple[Run, int]) -> None:
        run, version = what
        if run.version != version:
            return
        self._charge()
        self._leave(run)
        self._over += 1
        self._end(run, JobFinished(self.now, run.job.id, run.epoch))

    def _fail(self, what: tuple[Run, int]) -> None:
        run, version = what
        if run.version != version:
            return
        kept = run.checkpointed(self.now)
        self._saved[run.job.id] = kept
        self._leave(run)
        self._end(run, JobFailed(self.now, run.job.id, run.epoch, kept))

    def _stopped(self, run: Run) -> None:
        if self._runs.get(run.job.id) is not run:
            return
        self._saved[run.job.id] = run.done
        self._leave(run)
        self._end(run, InstructionDone(self.now, run.job.id, run.epoch, run.stop_verb, run.done))

    def _end(self, run: Run, event: Event) -> None:
        self._ended[run.job.id] = event
        self._tell(event)

    def _leave(self, run: Run) -> None:
        run.version += 1
        del self._runs[run.job.id]
        self._call_off(run)
        self._vacate(run, run.placement.numbers)

    def _vacate(self, run: Run, numbers: Collection[int]) -> None:
        """These of its seats are free."""
        for seat in run.placement.seats:
            if seat.number not in numbers:
                continue
            self._used[seat.node] -= seat.gpus
            begun = run.seated.pop(seat.number)
            if self.keep_sittings:
                who = (run.job.id, run.job.tenant, seat.node, seat.gpus)
                self.record.sittings.append(Sitting(*who, begun, self.now))

    def _charge(self) -> None:
        """Muri's rule: every running job loses its overhead at every event."""
        if not self.costs.charged_at_every_event:
            return
        for run in list(self._runs.values()):
            if run.phase is not Phase.RUNNING or run.finish_at <= self.now:
                continue
            useful = max(self.now - run.mark - self.costs.overhead_seconds(run.job), 0.0)
            run.done = min(run.done + useful * run.speed, run.job.work.amount)
            run.mark = self.now
            self._foresee(run)
            self._deliver(JobReported(self.now, run.job.id, run.epoch, Phase.RUNNING, run.done))

    # --- instructions -------------------------------------------------------------------------

    def _send(self, instruction: Instruction) -> None:
        """Carry an instruction out, or lose, repeat or delay it on the way."""
        if isinstance(instruction, Wake):
            self._at(max(instruction.at, self.now), _Turn.TICK, self._tick, instruction.at)
        elif not self.faults.lossy or self.now >= self.faults.until_seconds:
            self._act(instruction)
        else:
            for delay in self._copies(self.faults.drop_instruction, self.faults.repeat_instruction):
                self._at(self.now + delay, _Turn.MESSAGE, self._act, instruction)

    def _act(self, instruction: Instruction) -> None:
        if isinstance(instruction, Start):
            self._act_start(instruction)
        elif isinstance(instruction, Preempt | Stop):
            self._act_stop(instruction)
        elif isinstance(instruction, Resize):
            self._act_resize(instruction)
        elif isinstance(instruction, Probe):
            self._act_probe(instruction)

    def _act_start(self, start: Start) -> None:
        present = self._runs.get(start.job)
        if present is not None and present.epoch == start.epoch:
            if present.phase is Phase.RUNNING:
                self._tell(InstructionDone(self.now, start.job, start.epoch, Verb.START))
            return
        ended = self._ended.get(start.job)
        if ended is not None and ended.epoch >= start.epoch:  # type: ignore[union-attr]
            self._tell(ended)
            return
        refused = self._refused.get(start.job)
        if refused is None or refused.epoch < start.epoch:
            why = self._refusal(start, present)
            if not why:
                self._begin(start)
                return
            refused = InstructionRefused(self.now, start.job, start.epoch, Verb.START, why)
            self._refused[start.job] = refused
        self._tell(refused)

    def _refusal(self, start: Start, present: Run | None) -> str:
        """Why this world will not start it: its own guard, apart from the brain's."""
        if present is not None:
            return f"epoch {present.epoch} still runs"
        why = self._no_room(start.assignment.placement)
        if why:
            return why
        fault = self.faults.refuse_start if self.now < self.faults.until_seconds else 0.0
        if fault and self._chance.uniform("refuse", start.job, start.epoch) < fault:
            return "refused by chance"
        return ""

    def _no_room(self, placement: Placement) -> str:
        for node, gpus in placement.gpus_by_node.items():
            row = self._nodes.row.get(node)
            if row is None or not self._nodes.columns.present[row]:
                return f"node {node} is not there"
            if self._used[node] + gpus > self._nodes.specs[row].gpus:
                return f"node {node} is full"
        return ""

    def _begin(self, start: Start) -> None:
        job = self._specs[start.job]
        placement, saved = start.assignment.placement.numbered(), self._saved.get(job.id, 0.0)
        run = Run(job, start.epoch, placement, saved, self.now)
        self._runs[job.id] = run
        for seat in run.placement.seats:
            self._used[seat.node] += seat.gpus
        line = self.record.jobs[job.id]
        line.starts += 1
        if line.first_start is None:
            line.first_start = self.now
            line.first_nodes = len(run.placement.nodes)
        delay = self.costs.start.at(self._chance.uniform("start", job.id, start.epoch))
        self._at(self.now + delay, _Turn.MESSAGE, self._started, run)

    def _act_resize(self, resize: Resize) -> None:
        """Newer than what was done before: seats that are added are taken at once."""
        run = self._runs.get(resize.job)
        if run is None or run.epoch != resize.epoch or run.phase is not Phase.RUNNING:
            return  # its end is told, or will be
        if resize.serial <= run.serial:
            if resize.serial == run.serial and run.resize_answer is not None:
                self._tell(run.resize_answer)
            return
        self._call_off(run)
        run.serial, run.resize_answer = resize.serial, None
        target = resize.assignment.placement
        why = self._unfit(run, target)
        if why:
            self._answer_resize(run, Verb.RESIZE, why)
            return
        for seat in _added(run.placement, target):
            self._used[seat.node] += seat.gpus
        run.target, run.next_seat = target, max(run.next_seat, max(target.numbers) + 1)
        delay = self.costs.resize.at(self._chance.uniform("resize", run.job.id, run.serial))
        self._at(self.now + delay, _Turn.MESSAGE, self._resized, (run, run.serial))

    def _unfit(self, run: Run, target: Placement) -> str:
        """Why this world will not do it."""
        if run.broken or not run.live:
            return "it cannot be resized live"
        why = self._no_room(Placement(_added(run.placement, target)))
        if why:
            return why
        fault = self.faults.refuse_start if self.now < self.faults.until_seconds else 0.0
        draw = self._chance.uniform("refuse resize", run.job.id, run.epoch, run.serial)
        return "refused by chance" if fault and draw < fault else ""

    def _resized(self, what: tuple[Run, int]) -> None:
        """The new width begins, unless something came between."""
        run, serial = what
        target = run.target
        if run.serial != serial or target is None or self._runs.get(run.job.id) is not run:
            return
        if run.phase is not Phase.RUNNING:
            return
        self._vacate(run, run.placement.numbers - target.numbers)
        run.target = None
        self.record.jobs[run.job.id].resizes += 1
        self._repace(run, target)
        self._answer_resize(run, Verb.RESIZE)

    def _answer_resize(self, run: Run, verb: Verb, why: str = "") -> None:
        who = (self.now, run.job.id, run.epoch, verb)
        if why:
            run.resize_answer = InstructionRefused(*who, why, run.serial)
        else:
            run.resize_answer = InstructionDone(*who, serial=run.serial)
        self._tell(run.resize_answer)

    def _repace(self, run: Run, placement: Placement) -> None:
        """Another placement, after a pause."""
        run.take_placement(placement, self.now)
        run.speed = self._nodes.units_per_second(run.job, placement)
        pause = self.costs.resize_pause.at(
            self._chance.uniform("resize pause", run.job.id, run.serial)
        )
        run.mark += pause
        run.paced += pause
        self._foresee(run)

    def _call_off(self, run: Run) -> None:
        """A resize under way does not take place: what was taken for it is free again."""
        if run.target is None:
            return
        for seat in _added(run.placement, run.target):
            self._used[seat.node] -= seat.gpus
        run.target = None

    def _act_stop(self, stop: Preempt | Stop) -> None:
        run = self._runs.get(stop.job)
        if run is None or run.epoch != stop.epoch:
            self._answer_absent(stop.job, stop.epoch, stop.verb)
            return
        if run.phase is Phase.STOPPING:
            return
        if run.phase is Phase.RUNNING and not run.broken:
            run.done, run.saved = run.progress(self.now), run.checkpointed(self.now)
        run.phase, run.stop_verb = Phase.STOPPING, stop.verb
        run.speed, run.mark = 0.0, self.now
        run.version += 1
        delay = self.costs.stop.at(self._chance.uniform("stop", stop.job, stop.epoch))
        delay += self.faults.lease_seconds if run.broken else 0.0
        self._at(self.now + delay, _Turn.MESSAGE, self._stopped, run)

    def _answer_absent(self, job: JobId, epoch: int, verb: Verb) -> None:
        """It is gone, or it is not to come: an epoch stopped before it started never starts."""
        ended = self._ended.get(job)
        if ended is not None and ended.epoch == epoch:  # type: ignore[union-attr]
            self._tell(ended)
            return
        answer = InstructionDone(self.now, job, epoch, verb, self._saved.get(job, 0.0))
        if ended is None or ended.epoch < epoch:  # type: ignore[union-attr]
            self._ended[job] = answer
        self._tell(answer)

    def _act_probe(self, probe: Probe) -> None:
        run = self._runs.get(probe.job)
        ended = self._ended.get(probe.job)
        if run is not None:
            self._tell(self._seen(run))
        elif ended is not None and ended.epoch == probe.epoch:  # type: ignore[union-attr]
            self._tell(ended)
        else:
            kept = self._saved.get(probe.job, 0.0)
            self._tell(JobReported(self.now, probe.job, probe.epoch, Phase.ABSENT, kept))

    def _seen(self, run: Run) -> JobReported:
        """What a look at it shows; a resize counts once it has been answered."""
        serial = run.serial if run.target is None else run.serial - 1
        return JobReported(
            self.now,
            run.job.id,
            run.epoch,
            run.phase,
            run.progress(self.now),
            run.placement,
            serial=serial,
            next_seat=run.next_seat,
            live=run.live or None,
        )

    def _adoptable(self, run: Run) -> JobReported:
        """For a brain that knows nothing: all that it may have processes on, in a resize both."""
        seen = self._seen(run)
        return replace(seen, placement=Placement(run.seats), serial=run.serial)

    # --- reports ------------------------------------------------------------------------------

    def _tell(self, event: Event) -> None:
        """Report to the brain, or lose, repeat or delay the report on the way."""
        if not self.faults.lossy or self.now >= self.faults.until_seconds:
            self._at(self.now, _Turn.MESSAGE, self._arrive, event)
            return
        for delay in self._copies(self.faults.drop_report, self.faults.repeat_report):
            self._at(self.now + delay, _Turn.MESSAGE, self._arrive, event)

    def _arrive(self, event: Event) -> None:
        if event.at != self.now:
            event = replace(event, at=self.now)
        self._deliver(event)

    def _copies(self, drop: float, repeat: float) -> list[float]:
        """Delays of the copies that arrive: none, one or two."""
        self._messages += 1
        draw = self._chance.uniform("copies", self._messages)
        count = 0 if draw < drop else 2 if draw < drop + repeat else 1
        return [
            self.faults.late_seconds * self._chance.uniform("late", self._messages, copy)
            for copy in range(count)
        ]

    # --- the record ---------------------------------------------------------------------------

    def _sample(self) -> None:
        if self.brain.decision is None or self.now - self._sampled < SAMPLE_SECONDS:
            return
        self._sampled = self.now
        jobs, size = self.brain.state.jobs, self.brain.state.size
        waits = jobs.active[:size] & (jobs.state[:size] <= State.ADMITTED)
        self.record.times.append(self.now)
        self.record.used_gpus.append(sum(self._used.values()))
        self.record.waiting_jobs.append(int(np.count_nonzero(waits)))
        self.record.waiting_gpus.append(int(jobs.asked_gpus[:size][waits].sum()))

    def _close(self) -> Record:
        record = self.record
        record.rounds = self.brain.rounds
        record.end = self.now
        record.journal_hash = self.journal.digest
        for job, closed in self.brain.state.closed.items():
            line = record.jobs[job]
            line.ended = closed.at
            line.outcome = closed.state.name.lower()
            line.waits_seconds = closed.waits_seconds
            line.preemptions = closed.preemptions
            line.failures = closed.failures
            line.attained_gpu_seconds = closed.attained_gpu_seconds
        return record


def _added(before: Placement, after: Placement) -> tuple[Seat, ...]:
    """Seats that only the later one has."""
    return tuple(seat for seat in after.seats if seat.number not in before.numbers)
