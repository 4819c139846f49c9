"""What a simulation leaves behind: a line per job, occupancy over time, and who sat where."""

from collections.abc import Callable
from dataclasses import dataclass, field

from weft.brain.brain import Brain
from weft.brain.event import JobFailed, Verb
from weft.brain.journal import Journal
from weft.brain.state.brain_state import BrainState
from weft.brain.state.waited import calm_since, waited
from weft.model.decision import NO_PARTY
from weft.model.ids import JobId, NodeId, PartyId, TenantId
from weft.model.job import Job
from weft.model.state import State
from weft.model.trial import is_trial
from weft.perf.calibration import Calibration
from weft.sim.run import Run

SAMPLE_SECONDS = 60.0
ADMITTED = State.ADMITTED


@dataclass(slots=True)
class JobRecord:
    """One job's life as the world saw it; `waits_seconds` in the order of `CAUSES`.

    `lost_gpu_seconds` is what its failures threw away, `yielded_gpu_seconds` what it lost by making
    way for others; `cause` is the class of its last failure.
    """

    id: JobId
    tenant: TenantId
    gpus: int
    submitted: float
    service_seconds: float
    first_start: float | None = None
    ended: float | None = None
    outcome: str = "active"
    first_nodes: int = 0
    starts: int = 0
    resizes: int = 0
    preemptions: int = 0
    failures: int = 0
    attained_gpu_seconds: float = 0.0
    waits_seconds: tuple[float, ...] = ()
    lost_gpu_seconds: float = 0.0
    yielded_gpu_seconds: float = 0.0
    cause: str = ""
    evidence: str = ""

    @classmethod
    def found(cls, job: Job, state: BrainState, slot: int) -> "JobRecord":
        """Of a job that was there before the world began: its last start stands for the first."""
        jobs, epoch = state.jobs, int(state.jobs.epoch[slot])
        return cls(
            job.id,
            job.tenant,
            job.width.asked_gpus,
            job.submit_seconds,
            job.truth.seconds_as_asked,
            first_start=float(jobs.started[slot]) if epoch else None,
            starts=epoch,
            resizes=int(jobs.resizes[slot]),
        )

    @property
    def jct_seconds(self) -> float | None:
        return None if self.ended is None else self.ended - self.submitted

    @property
    def start_delay_seconds(self) -> float | None:
        return None if self.first_start is None else self.first_start - self.submitted


@dataclass(frozen=True, slots=True)
class Sitting:
    """A job on a node, for a Gantt chart; jobs of one `party` take turns on the same GPUs."""

    job: JobId
    tenant: TenantId
    node: NodeId
    gpus: int
    begin: float
    end: float
    party: PartyId = NO_PARTY


@dataclass(slots=True)
class Record:
    """The whole run."""

    recipe: str
    seed: int
    total_gpus: int
    jobs: dict[JobId, JobRecord] = field(default_factory=dict)
    trials: dict[JobId, JobRecord] = field(default_factory=dict)
    sittings: list[Sitting] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    used_gpus: list[int] = field(default_factory=list)
    waiting_jobs: list[int] = field(default_factory=list)
    waiting_gpus: list[int] = field(default_factory=list)
    events: int = 0
    rounds: int = 0
    end: float = 0.0
    journal_hash: str = ""
    curve_scores: Calibration = field(default_factory=Calibration)
    work_scores: Calibration = field(default_factory=Calibration)

    @property
    def last_end(self) -> float:
        """When the last job ended; a brain may have asked to be woken long after that."""
        ends = [line.ended for line in self.jobs.values()]
        known = [end for end in ends if end is not None]
        return max(known) if known and len(known) == len(ends) else self.end

    def sample(self, at: float, state: BrainState, used_gpus: Callable[[], int]) -> None:
        """Occupancy and queue, once in a while."""
        if self.times and at - self.times[-1] < SAMPLE_SECONDS:
            return
        waiting, asked = state.queued + len(state.seating.admitted), 0
        if waiting:
            jobs, size = state.jobs, state.size
            waits = jobs.active[:size] & (jobs.state[:size] <= ADMITTED)
            asked = int(jobs.asked_gpus[:size][waits].sum())
        self.times.append(at)
        self.used_gpus.append(used_gpus())
        self.waiting_jobs.append(waiting)
        self.waiting_gpus.append(asked)

    def note_start(self, run: Run, at: float) -> None:
        line = self._line(run.job, at)
        line.starts += 1
        if line.first_start is None:
            line.first_start = at
            line.first_nodes = len(run.placement.nodes)

    def note_stop(self, run: Run, at: float, verb: Verb) -> None:
        """What a job did since it last saved is lost, unless it saves when it is told to stop."""
        if verb is Verb.PREEMPT and run.speed > 0:
            undone = (run.progress(at) - run.kept(at)) / run.speed
            self._line(run.job, at).yielded_gpu_seconds += undone * run.placement.width

    def note_failure(self, run: Run, failed: JobFailed) -> None:
        """What a run did since its last checkpoint is lost."""
        line, found = self._line(run.job, failed.at), failed.diagnosis
        undone = run.progress(failed.at) - failed.work_kept
        if run.speed > 0:
            line.lost_gpu_seconds += undone / run.speed * run.placement.width
        if found is not None:
            line.cause, line.evidence = found.kind.value, found.line

    def close(self, at: float, brain: Brain, journal: Journal) -> "Record":
        """How it all ended."""
        self.rounds = brain.rounds
        self.end = at
        self.journal_hash = journal.digest
        self.curve_scores = brain.learning.curve_scores
        self.work_scores = brain.learning.work_scores
        calm = calm_since(brain.state, at)
        for job, line in (*self.jobs.items(), *self.trials.items()):
            closed = brain.state.closed.get(job)
            if closed is None:
                if job in brain.state.slot_of:
                    line.waits_seconds = tuple(waited(brain.state, job, calm))
                continue
            line.ended = closed.at
            line.outcome = closed.state.name.lower()
            line.waits_seconds = closed.waits_seconds
            line.preemptions = closed.preemptions
            line.failures = closed.failures
            line.attained_gpu_seconds = closed.attained_gpu_seconds
        return self

    def _line(self, job: Job, at: float) -> JobRecord:
        """Trials have lines of their own: nobody has submitted them."""
        if not is_trial(job.id):
            return self.jobs[job.id]
        seconds = job.truth.seconds_as_asked
        return self.trials.setdefault(job.id, JobRecord(job.id, job.tenant, 1, at, seconds))
