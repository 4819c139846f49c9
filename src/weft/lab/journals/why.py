"""Why a job of a recorded run waited: the brain as it was then, asked.

The brain is rebuilt from the run's journal up to the moment in question, so the answer comes from
the very code that made the job wait. The first pass over the journal follows the job through all
records; the second stops at the moment asked for and looks around.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from string import Formatter

from weft.brain.beside import Beside, slowed_by
from weft.brain.brain import Brain
from weft.brain.considered import considered
from weft.brain.event import JobSubmitted
from weft.brain.state.brain_state import BrainState
from weft.brain.state.closed import Closed
from weft.brain.state.waited import calm_since, waited
from weft.brain.state.waits import REASONS
from weft.failure.classes import FailureClass
from weft.lab.journals.journal_file import JournalFile
from weft.lab.time_words import span
from weft.model.errors import UnknownName
from weft.model.ids import JobId, NodeId
from weft.model.reason import CAUSES, Reason
from weft.model.request import JobRequest
from weft.model.state import State
from weft.reconcile.company import company_seen, no_company_seen
from weft.view.company import Company, NoCompany
from weft.view.plans import Considered
from weft.view.reasons import counted, possible

SCHEMA = "weft-why/1"
WAITING = (State.QUEUED.name, State.ADMITTED.name)


@dataclass(frozen=True, slots=True)
class Told:
    """A reason as a person reads it."""

    code: str
    cause: str
    text: str
    remedy: str
    anchor: str
    numbers: dict[str, float | int | str]

    @classmethod
    def of(cls, reason: Reason) -> "Told":
        code = reason.code
        return cls(
            code.slug,
            code.cause.label,
            counted(reason.text),
            possible(reason.remedy),
            code.anchor,
            {name: reason.numbers[name] for name in _named_in(code.sentence + code.remedy)},
        )


@dataclass(frozen=True, slots=True)
class Episode:
    """From `begin` on the job was in this state, for this reason, up to the next episode."""

    begin: float
    state: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Why a job is given up: the class, the line that shows it, what was done, what to do."""

    at: float
    kind: str
    says: str
    evidence: str
    node: str | None
    rank: int | None
    failures: int
    did: str
    advice: str

    @classmethod
    def of(cls, closed: Closed) -> "Failed":
        found = closed.diagnosis
        facts = FailureClass.UNKNOWN.facts
        return cls(
            at=closed.at,
            kind=FailureClass.UNKNOWN.value if found is None else found.kind.value,
            says=facts.meaning if found is None else found.says,
            evidence="" if found is None else found.line,
            node=None if found is None else found.node,
            rank=None if found is None else found.rank,
            failures=closed.failures,
            did=closed.why if found is None else closed.why.removeprefix(f"{found}; "),
            advice=facts.advice if found is None else found.counsel(given_up=True),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """All there is to say of one job at one moment.

    Where nobody named the moment, what it waited is told up to the end of that wait, which is
    `wait_ended`, and not only up to the last round that left it waiting.
    """

    schema: str = SCHEMA
    job: str
    at: float
    state: str
    gpus: int
    queue: str
    nodes: tuple[str, ...]
    waited_seconds: float
    wait_ended: float | None
    position: int | None
    waiting_jobs: int
    reasons: tuple[Told, ...]
    company: Company | None = None
    plan: Considered | None = None
    failed: Failed | None = None
    no_company: NoCompany | None = None
    neighbours: tuple[Beside, ...] = ()
    waits_seconds: dict[str, float]
    history: tuple[Episode, ...]

    def _repr_html_(self) -> str:
        from weft.lab.html import card, table_html

        rows = [(reason.code, reason.text, reason.remedy) for reason in self.reasons]
        below = f"{self.state} at {self.at:,.0f} s · waited {span(self.waited_seconds)}"
        if self.position is not None:
            below += f" · position {self.position} of {self.waiting_jobs}"
        table = table_html("", ("reason", "what holds it", "remedy"), rows)
        return card(f"why {self.job}", below, table if rows else "")


@dataclass(frozen=True, slots=True)
class Course:
    """A job's way through a journal, and the record to look at it from."""

    job: JobRequest
    episodes: tuple[Episode, ...]
    record: int
    end: float
    failed: Failed | None = None

    def state_at(self, at: float) -> str:
        """The state of the last episode that had begun by then."""
        begun = [episode for episode in self.episodes if episode.begin <= at]
        return (begun or self.episodes)[-1 if begun else 0].state

    def wait_ended(self, at: float) -> float | None:
        """When the wait of that moment was over; None where it never was."""
        later = (one for one in self.episodes if one.begin > at and one.state not in WAITING)
        return next((one.begin for one in later), None)


def why(journal: Path, job: str, *, at: float | None = None) -> Answer:
    """The job at that time, or after the last round that gave it no seats."""
    course = follow(journal, JobId(job), at)
    brain = _rebuilt(journal, course.record)
    return answer(brain, course, at)


def follow(journal: Path, job: JobId, at: float | None) -> Course:
    """The job's episodes, and the record after which the question is best asked."""
    file = JournalFile(journal)
    brain = file.header().brain()
    spec: JobRequest | None = None
    episodes: list[Episode] = []
    asked = last_wait = 0
    for entry in file.entries():
        brain.handle(entry.event)
        if isinstance(entry.event, JobSubmitted) and entry.event.job.id == job:
            spec, asked = spec or entry.event.job, asked or entry.number
        episode = _episode(brain, job)
        if episode is None or (at is not None and entry.event.at > at and episodes):
            continue
        if episodes and episode.state == episodes[-1].state and State[episode.state].final:
            continue  # it is over; what comes later is others' doing
        _append(episodes, episode)
        asked = entry.number
        if brain.decision is not None and episode.state == State.QUEUED.name:
            last_wait = entry.number
    if spec is None:
        raise UnknownName(f"no job '{job}' in this run", hint=_near(brain.state, job))
    record = asked if at is not None else last_wait or asked
    failed = _failed(brain.state, job, at)
    return Course(spec, tuple(episodes), record, calm_since(brain.state, brain.now), failed)


def _nodes(state: BrainState, slot: int) -> tuple[NodeId, ...]:
    """Each once, however many seats are on it."""
    return tuple(state.node_ids[row] for row in dict.fromkeys(state.nodes_of(slot)))


def answer(brain: Brain, course: Course, at: float | None) -> Answer:
    """What the brain says of the job now."""
    state, spec = brain.state, course.job
    slot = state.slot_of.get(spec.id)
    reasons, line = brain.explain(spec.id), _line(brain)
    now = brain.now if at is None else max(at, brain.now)
    ended = course.wait_ended(now) if at is None and reasons else None
    until = now if at is not None else ended or course.end
    waits = waited(state, spec.id, max(until, now))
    return Answer(
        job=spec.id,
        at=now,
        state=course.state_at(now),
        gpus=(0 if slot is None else int(state.jobs.width[slot])) or spec.width.asked_gpus,
        queue=spec.queue,
        nodes=() if slot is None else _nodes(state, slot),
        waited_seconds=sum(waits),
        wait_ended=ended,
        position=line.index(spec.id) + 1 if spec.id in line else None,
        waiting_jobs=len(line),
        reasons=tuple(Told.of(reason) for reason in reasons),
        plan=considered(brain, spec.id),
        failed=course.failed,
        company=company_seen(brain, spec.id, by_all=True),
        no_company=no_company_seen(brain, spec.id, by_all=True) if reasons else None,
        neighbours=slowed_by(brain, spec.id),
        waits_seconds={c.label: seconds for c, seconds in zip(CAUSES, waits, strict=True)},
        history=course.episodes,
    )


def _failed(state: BrainState, job: JobId, at: float | None) -> Failed | None:
    """How it was given up, if that was before the moment in question."""
    closed = state.closed.get(job)
    if closed is None or closed.state is not State.FAILED or (at is not None and closed.at > at):
        return None
    return Failed.of(closed)


def _append(episodes: list[Episode], episode: Episode) -> None:
    """A new line where something changed; what lasts no time at all is written over."""
    if episodes and (episodes[-1].state, episodes[-1].reason) == (episode.state, episode.reason):
        return
    if episodes and episodes[-1].begin == episode.begin:
        episodes.pop()
    episodes.append(episode)


def _rebuilt(journal: Path, record: int) -> Brain:
    file = JournalFile(journal)
    brain = file.header().brain()
    for entry in file.entries():
        brain.handle(entry.event)
        if entry.number == record:
            break
    return brain


def _episode(brain: Brain, job: JobId) -> Episode | None:
    state, slot = brain.state, brain.state.slot_of.get(job)
    if slot is None:
        closed = state.closed.get(job)
        return None if closed is None else Episode(closed.at, closed.state.name, "")
    now = state.state_of(slot)
    row = int(state.jobs.reason[slot])
    waits = now in (State.QUEUED, State.ADMITTED) and row > 0
    return Episode(brain.now, now.name, REASONS[row - 1].slug if waits else "")


def _line(brain: Brain) -> list[JobId]:
    """Jobs that wait for seats, in the order in which the recipe would serve them now."""
    snapshot = brain.state.snapshot(brain.now)
    waiting = snapshot.slots(State.QUEUED)
    ranking = brain.recipe.order(snapshot, waiting)
    ordered = waiting[ranking.sorted(snapshot, waiting)]
    return [brain.state.spec(slot).id for slot in ordered.tolist()]


def _named_in(sentence: str) -> list[str]:
    """The numbers that a sentence speaks of."""
    return list(dict.fromkeys(name for _, name, _, _ in Formatter().parse(sentence) if name))


def _near(state: BrainState, job: JobId) -> str:
    known = [*state.closed, *state.slot_of]
    near = get_close_matches(job, known, n=3)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return (
        f"it has {len(known)} jobs, such as {', '.join(known[:3])}" if known else "it has no jobs"
    )
