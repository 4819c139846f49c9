"""The simulated world: it obeys the brain's instructions and reports, in virtual time.

Work grows between events at the speed that a placement gives. The world keeps its own account of
GPUs and incarnations and refuses what does not fit: a guard that shares no code with the brain's.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, TypedDict, Unpack

from weft.brain.brain import Brain
from weft.brain.event import (
    Event,
    InstructionDone,
    InstructionRefused,
    JobCancelled,
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
from weft.brain.instruction import Feed, Instruction, Preempt, Probe, Resize, Start, Stop, Wake
from weft.brain.journal import Journal
from weft.model.cluster import Cluster
from weft.model.ids import JobId, NodeId
from weft.model.job import Job
from weft.model.placement import Placement
from weft.model.trial import is_trial
from weft.model.truth import JobTruth
from weft.perf.interleaving.group import DECIDING, CycleModel
from weft.sim.agenda import Agenda, Turn
from weft.sim.believed import believed, truth_of
from weft.sim.chance import Chance
from weft.sim.changes import Changes
from weft.sim.checks import Checks
from weft.sim.checkups import Checkups
from weft.sim.costs import COSTS, Costs
from weft.sim.ends import Ends
from weft.sim.faults import NO_FAULTS, Faults
from weft.sim.ground import Ground
from weft.sim.mishaps import Mishaps
from weft.sim.moment import InFlight, Moment
from weft.sim.past import Ending, Past
from weft.sim.record import JobRecord, Record, Sitting
from weft.sim.run import Run
from weft.sim.telling import TELLING, Telling
from weft.sim.timetable import Happenings, Timetable
from weft.sim.trial_job import trial_job
from weft.sim.turns import Turns

__all__ = ["Checks", "World"]

IDLE_TICKS = 2_000


class Parts(TypedDict, total=False):
    """What of a world can be replaced, by name."""

    costs: Costs
    faults: Faults
    telling: Telling
    seed: int
    journal: Journal | None
    checks: Checks
    keep_sittings: bool
    cycles: CycleModel


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
        telling: Telling = TELLING,
        seed: int = 0,
        journal: Journal | None = None,
        checks: Checks = Checks.TOUCHED,
        keep_sittings: bool = False,
        cycles: CycleModel = DECIDING,
    ) -> None:
        self.brain = brain
        self.costs = costs
        self.faults = faults
        self.telling = telling
        self.journal = journal or Journal()
        self.checks = checks
        self.keep_sittings = keep_sittings
        self.record = Record(brain.recipe.name, seed, cluster.gpus)
        self._chance = Chance(seed)
        self._jobs = sorted(jobs, key=lambda job: job.submit_seconds)
        self._mishaps = Mishaps(faults, self._chance)
        self._ends = Ends(faults.troubles, self._mishaps, self._chance)
        self._agenda = Agenda(brain.now)
        self._at = self._agenda.put
        self._ground = Ground()
        self._specs: dict[JobId, Job] = {}
        self._runs: dict[JobId, Run] = {}
        self._turns = Turns(self._ground, self._runs, cycles)
        self._past = Past()
        self._timetable = Timetable(
            self._agenda,
            telling,
            Happenings(
                started=self._started,
                stopped=self._stopped,
                resized=self._resized,
                finish=self._finish,
                fail=self._fail,
                measure=self._measure,
                fails_at=self._ends.at,
            ),
        )
        self._changes = Changes(
            agenda=self._agenda,
            runs=self._runs,
            ground=self._ground,
            turns=self._turns,
            timetable=self._timetable,
            costs=costs,
            chance=self._chance,
            record=self.record,
            unfit=self._unfit,
            vacate=self._vacate,
            tell=self._tell,
        )
        self._acts: dict[type, Callable[[Any], None]] = {
            Start: self._act_start,
            Preempt: self._act_stop,
            Stop: self._act_stop,
            Resize: self._changes.resize,
            Feed: self._changes.feed,
            Probe: self._act_probe,
            **Checkups(faults.troubles, self._agenda, self._tell).acts,
        }
        self._idle = self._over = self._found = 0
        for node in cluster.nodes:
            self._at(0.0, Turn.WORLD, self._planned, NodeAdded(0.0, node))
        for event in faults.planned:
            self._at(event.at, Turn.WORLD, self._planned, event)
        if self._jobs:
            at = max(self._jobs[0].submit_seconds, self.now)
            self._at(at, Turn.SUBMISSION, self._submit, 0)

    # --- beginning in the middle --------------------------------------------------------------

    @classmethod
    def resume(
        cls,
        brain: Brain,
        truths: Mapping[JobId, JobTruth],
        *,
        moment: Moment | None = None,
        coming: Sequence[Job] = (),
        **parts: Unpack[Parts],
    ) -> Self:
        """A world that goes on from where this brain is; it is driven, so hand in a copy.

        Without a `moment` the runs are where the brain believes them to be. `coming` are jobs that
        will be submitted; of planned faults those happen that are still to come.
        """
        parts["faults"] = parts.get("faults", NO_FAULTS).after(brain.now)
        world = cls(Cluster(()), coming, brain, **parts)
        chance = Chance(parts.get("seed", 0))
        world._take_up(truths, moment or believed(brain, world.costs, chance))
        return world

    def moment(self) -> Moment:
        """What this world knows and its brain does not, once all of this instant has happened."""
        wakes = [at for happen, at in self._agenda.entries if happen == self._tick]
        return Moment(tuple(run.in_flight() for run in self._runs.values()), tuple(wakes))

    def _take_up(self, truths: Mapping[JobId, JobTruth], moment: Moment) -> None:
        state = self.brain.state
        self._ground.take_over(state.node_table)
        self.record.total_gpus = self._ground.gpus
        self._found = len(state.slot_of)
        for name, slot in state.slot_of.items():
            job = self._specs[name] = Job(state.spec(slot), truth_of(name, truths))
            self.record.jobs[name] = JobRecord.found(job, state, slot)
            self._past.keep(name, float(state.jobs.work_done[slot]))
        for found in moment.runs:
            self._find(found)
        for run in self._runs.values():
            run.in_company = bool(self._turns.others(run))
        self._timetable.take_up(self._runs.values())
        for at in moment.wakes:
            self._at(max(at, self.now), Turn.TICK, self._tick, at)

    def _find(self, found: InFlight) -> None:
        run = self._runs[found.job] = Run.resumed(self._specs[found.job], found, self.now)
        self._ground.take(run, run.seats)
        if run.phase is Phase.RUNNING:
            told = found.units_per_second
            run.speed = self._turns.speed(run) if told is None else told

    # --- the loop -----------------------------------------------------------------------------

    def run(
        self,
        *,
        horizon_seconds: float = float("inf"),
        progress: Callable[[int, int], None] | None = None,
    ) -> Record:
        """Until nothing is left to happen, or the horizon."""
        agenda = self._agenda
        while agenda and agenda.next_at <= horizon_seconds:
            self.step()
            if progress is not None and self.record.events % 2048 == 0:
                progress(self._over, self._found + len(self._jobs))
            if self._idle > IDLE_TICKS:
                break
        return self.record.close(self.now, self.brain, self.journal)

    def step(self) -> None:
        """The next thing that happens."""
        self._agenda.advance()

    @property
    def now(self) -> float:
        return self._agenda.now

    @property
    def pending(self) -> bool:
        return bool(self._agenda)

    def running(self) -> list[Run]:
        return list(self._runs.values())

    def _deliver(self, event: Event) -> None:
        instructions = self.brain.handle(event)
        self.record.events += 1
        self.journal.record(event, instructions)
        if self.checks:
            self.checks.demand(self.brain, event)
        for instruction in instructions:
            self._send(instruction)

    # --- things that happen -------------------------------------------------------------------

    def _submit(self, index: int) -> None:
        self._charge()
        job = self._jobs[index]
        if index + 1 < len(self._jobs):
            at = max(self._jobs[index + 1].submit_seconds, self.now)
            self._at(at, Turn.SUBMISSION, self._submit, index + 1)
        self._idle = 0
        if job.id not in self._specs:
            self._specs[job.id] = job
            asked, seconds = job.width.asked_gpus, job.truth.seconds_as_asked
            self.record.jobs[job.id] = JobRecord(job.id, job.tenant, asked, self.now, seconds)
        self._deliver(JobSubmitted(self.now, job.request))

    def _tick(self, at: float) -> None:
        if self.brain.round_is_due(at):
            self._charge()
        self._idle = 0 if self._runs else self._idle + 1
        self._deliver(Tick(at))
        if self.brain.decision is not None:
            self.record.sample(self.now, self.brain.state, self._ground.used_gpus)

    def _planned(self, event: Event) -> None:
        """Nodes, queues and cancellations: the world changes first, then word of it goes out."""
        if isinstance(event, NodeAdded | NodeChanged):
            self._ground.put(event.node)
        elif isinstance(event, NodeLost):
            self._break_node(event.node)
        elif isinstance(event, JobCancelled):
            self._idle = 0
        self._deliver(event)

    def _break_node(self, node: NodeId) -> None:
        if not self._ground.lose(node):
            return
        for run in self._runs.values():
            if node in run.placement.nodes and not run.broken:
                self._lose_seats(run, node)

    def _lose_seats(self, run: Run, node: NodeId) -> None:
        """Whoever can trains on with the seats that are left; the others make no more progress."""
        left = Placement(tuple(seat for seat in run.placement.seats if seat.node != node))
        wide_enough = left.seats and left.width >= run.job.width.min_gpus
        if not (run.live and run.phase is Phase.RUNNING and wide_enough):
            self._break(run)
            return
        self._changes.call_off(run)
        self._vacate(run, run.placement.numbers - left.numbers)
        self._changes.resume_on(run, left)
        self._tell(run.seen(self.now))

    def _break(self, run: Run) -> None:
        """Its processes make no more progress; what was not checkpointed is gone."""
        run.done = run.checkpointed(self.now)
        run.speed, run.mark, run.broken = 0.0, self.now, True
        run.version += 1
        self._changes.pace_company_anew(run)

    def _started(self, run: Run) -> None:
        if run.phase is not Phase.STARTING or self._runs.get(run.job.id) is not run:
            return
        run.phase = Phase.RUNNING
        run.begin(self.now)
        if not run.broken:
            run.speed = self._turns.speed(run)
            self._timetable.pace(run)
            self._changes.pace_company_anew(run)
        self._tell(InstructionDone(self.now, run.job.id, run.epoch, Verb.START))
        if run.live or run.tunable:
            self._tell(run.seen(self.now))

    def _resized(self, what: tuple[Run, int]) -> None:
        self._changes.resized(what)

    def _measure(self, what: tuple[Run, int]) -> None:
        """Its width has stood still for a while: what the workers have measured is told."""
        run, version = what
        if run.version != version or run.phase is not Phase.RUNNING:
            return
        self._tell(self.telling.news(run, self.now, self._chance, self._turns.slower(run)))
        run.told = self.now
        run.news += 1
        self._timetable.news(run)

    def _finish(self, what: tuple[Run, int]) -> None:
        run, version = what
        if run.version != version:
            return
        self._charge()
        self._leave(run)
        self._over += 1
        self._end(JobFinished(self.now, run.job.id, run.epoch))

    def _fail(self, what: tuple[Run, int]) -> None:
        run, version = what
        if run.version != version:
            return
        kept = run.checkpointed(self.now)
        failed = self._ends.told(run, self.now, kept)
        self.record.note_failure(run, failed)
        self._past.keep(run.job.id, kept)
        self._leave(run)
        self._end(failed)

    def _stopped(self, run: Run) -> None:
        if self._runs.get(run.job.id) is not run:
            return
        self._past.keep(run.job.id, run.done)
        self._leave(run)
        self._end(InstructionDone(self.now, run.job.id, run.epoch, run.stop_verb, run.done))

    def _end(self, event: Ending) -> None:
        self._past.end(event)
        self._tell(event)

    def _leave(self, run: Run) -> None:
        run.version += 1
        del self._runs[run.job.id]
        self._changes.call_off(run)
        beside = self._turns.beside(run)
        self._vacate(run, run.placement.numbers)
        self._changes.pace_anew(*beside)

    def _vacate(self, run: Run, numbers: Collection[int]) -> None:
        """These of its seats are free."""
        gone = [seat for seat in run.placement.seats if seat.number in numbers]
        self._ground.free(run, gone)
        for seat in gone:
            begun = run.seated.pop(seat.number)
            if self.keep_sittings:
                who = (run.job.id, run.job.tenant, seat.node, seat.gpus)
                self.record.sittings.append(Sitting(*who, begun, self.now, run.party))

    def _charge(self) -> None:
        """Muri's rule: every running job loses its overhead at every event."""
        for run in self._changes.charged() if self.costs.charged_at_every_event else ():
            self._deliver(JobReported(self.now, run.job.id, run.epoch, Phase.RUNNING, run.done))

    # --- instructions -------------------------------------------------------------------------

    def _send(self, instruction: Instruction) -> None:
        """Carry an instruction out, or lose, repeat or delay it on the way."""
        if isinstance(instruction, Wake):
            self._at(max(instruction.at, self.now), Turn.TICK, self._tick, instruction.at)
        elif not self._mishaps.lose_messages(self.now):
            self._act(instruction)
        else:
            for delay in self._mishaps.delays(report=False):
                self._at(self.now + delay, Turn.MESSAGE, self._act, instruction)

    def _act(self, instruction: Instruction) -> None:
        self._acts[type(instruction)](instruction)

    def _act_start(self, start: Start) -> None:
        present = self._runs.get(start.job)
        if present is not None and present.epoch == start.epoch:
            if present.phase is Phase.RUNNING:
                self._tell(InstructionDone(self.now, start.job, start.epoch, Verb.START))
            return
        said = self._past.answer_to_start(start.job, start.epoch)
        if said is None:
            why = self._refusal(start, present)
            if not why:
                self._begin(start)
                return
            said = InstructionRefused(self.now, start.job, start.epoch, Verb.START, why)
            self._past.refuse(said)
        self._tell(said)

    def _refusal(self, start: Start, present: Run | None) -> str:
        """Why this world will not start it: its own guard, apart from the brain's."""
        if present is not None:
            return f"epoch {present.epoch} still runs"
        why = self._ground.no_room(start.assignment.placement, start.assignment.party)
        if why:
            return why
        refused = self._mishaps.refuse(self.now, "refuse", start.job, start.epoch)
        return "refused by chance" if refused else ""

    def _begin(self, start: Start) -> None:
        if is_trial(start.job):
            self._specs[start.job] = trial_job(start, self._specs, self.brain.settings)
        job = self._specs[start.job]
        placement, saved = start.assignment.placement.numbered(), self._past.kept(job.id)
        run = Run(job, start.epoch, placement, saved, self.now)
        run.plan = start.assignment.plan
        run.party = start.assignment.party or run.party
        self._runs[job.id] = run
        self._ground.take(run, placement.seats)
        self.record.note_start(run, self.now)
        delay = self.costs.start.at(self._chance.uniform("start", job.id, start.epoch))
        self._timetable.change(run, delay)

    def _unfit(self, run: Run, target: Placement) -> str:
        """Why this world will not do it."""
        if run.broken or not run.live:
            return "it cannot be resized live"
        why = self._ground.no_room(Placement(run.placement.added_by(target)))
        if why:
            return why
        what = ("refuse resize", run.job.id, run.epoch, run.serial)
        return "refused by chance" if self._mishaps.refuse(self.now, *what) else ""

    def _act_stop(self, stop: Preempt | Stop) -> None:
        run = self._runs.get(stop.job)
        if run is None or run.epoch != stop.epoch:
            self._answer_absent(stop.job, stop.epoch, stop.verb)
            return
        if run.phase is Phase.STOPPING:
            return
        if run.phase is Phase.RUNNING and not run.broken:
            self.record.note_stop(run, self.now, stop.verb)
            run.done, run.saved = run.kept(self.now), run.checkpointed(self.now)
        run.halt(stop.verb, self.now)
        self._changes.pace_company_anew(run)
        delay = self.costs.stop.at(self._chance.uniform("stop", stop.job, stop.epoch))
        delay += self.faults.lease_seconds if run.broken else 0.0
        self._timetable.change(run, delay)

    def _answer_absent(self, job: JobId, epoch: int, verb: Verb) -> None:
        """It is gone, or it is not to come: an epoch stopped before it started never starts."""
        answer = self._past.end_of(job, epoch)
        if answer is None:
            answer = InstructionDone(self.now, job, epoch, verb, self._past.kept(job))
            self._past.fence(answer)
        self._tell(answer)

    def _act_probe(self, probe: Probe) -> None:
        run = self._runs.get(probe.job)
        if run is None:
            ended = self._past.end_of(probe.job, probe.epoch)
            kept = self._past.kept(probe.job)
            self._tell(ended or JobReported(self.now, probe.job, probe.epoch, Phase.ABSENT, kept))
            return
        self._tell(run.seen(self.now))
        if run.stuck and self._ground.has_all(run.placement.nodes):
            self._tell(run.too_few(self.now))  # no loss of a node has told it

    # --- reports ------------------------------------------------------------------------------

    def _tell(self, event: Event) -> None:
        """Report to the brain, or lose, repeat or delay the report on the way."""
        lossy = self._mishaps.lose_messages(self.now)
        for delay in self._mishaps.delays(report=True) if lossy else (0.0,):
            self._at(self.now + delay, Turn.MESSAGE, self._arrive, event)

    def _arrive(self, event: Event) -> None:
        if event.at != self.now:
            event = replace(event, at=self.now)
        self._deliver(event)
