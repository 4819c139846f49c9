"""Why a job of a recorded run waited: the brain as it was then, asked.

The brain is rebuilt from the run's journal up to the moment in question, so the answer comes from
the very code that made the job wait. The first pass over the journal follows the job through all
records; the second stops at the moment asked for and looks around.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from weft.brain.brain import Brain
from weft.brain.state import REASONS, BrainState
from weft.lab.journal_file import JournalFile
from weft.model.errors import UnknownName
from weft.model.ids import JobId
from weft.model.reason import CAUSES, Cause, Reason
from weft.model.state import State

SCHEMA = "weft-why/1"


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
            reason.text,
            reason.remedy,
            code.anchor,
            dict(reason.numbers),
        )


@dataclass(frozen=True, slots=True)
class Episode:
    """From `begin` on the job was in this state, for this reason, up to the next episode."""

    begin: float
    state: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """All there is to say of one job at one moment."""

    schema: str = SCHEMA
    job: str
    at: float
    state: str
    gpus: int
    queue: str
    nodes: tuple[str, ...]
    waited_seconds: float
    position: int | None
    waiting_jobs: int
    reasons: tuple[Told, ...]
    waits_seconds: dict[str, float]
    history: tuple[Episode, ...]


@dataclass(frozen=True, slots=True)
class Course:
    """A job's way through a journal, and the record to look at it from."""

    episodes: tuple[Episode, ...]
    record: int


def why(journal: Path, job: str, *, at: float | None = None) -> Answer:
    """The job at that time, or at the last round that left it waiting."""
    course = follow(journal, JobId(job), at)
    brain = _rebuilt(journal, course.record)
    return answer(brain, JobId(job), course.episodes, at)


def follow(journal: Path, job: JobId, at: float | None) -> Course:
    """The job's episodes, and the record after which the question is best asked."""
    file = JournalFile(journal)
    brain = file.header().brain()
    episodes: list[Episode] = []
    last = last_wait = submitted = 0
    for entry in file.entries():
        brain.handle(entry.event)
        if at is None or entry.event.at <= at:
            last = entry.number
        episode = _episode(brain, job)
        if episode is None:
            continue
        submitted = submitted or entry.number
        if not episodes or (episodes[-1].state, episodes[-1].reason) != (
            episode.state,
            episode.reason,
        ):
            episodes.append(episode)
        if brain.decision is not None and episode.reason:
            last_wait = entry.number
    if not episodes:
        raise UnknownName(f"no job '{job}' in this run", hint=_near(brain.state, job))
    if at is not None:
        return Course(tuple(e for e in episodes if e.begin <= at), max(last, submitted))
    return Course(tuple(episodes), last_wait or submitted)


def answer(brain: Brain, job: JobId, episodes: tuple[Episode, ...], at: float | None) -> Answer:
    """What the brain says of the job now."""
    state, slot = brain.state, brain.state.slot_of.get(job)
    if slot is None:
        return _of_closed(brain, job, episodes, at)
    spec, reasons = state.spec(slot), brain.explain(job)
    now = brain.now if at is None else max(at, brain.now)
    waits = state.booked[slot, 1:].copy()
    waited = 0.0
    if reasons:
        waited = now - float(state.jobs.waiting_since[slot])
        waits[CAUSES.index(_booked_cause(state, slot))] += waited
    return Answer(
        job=job,
        at=now,
        state=state.state_of(slot).name,
        gpus=spec.width.asked_gpus,
        queue=spec.queue,
        nodes=tuple(state.node_ids[row] for row in state.nodes_of(slot)),
        waited_seconds=float(waits.sum()),
        position=int(reasons[0].numbers["ahead"]) + 1 if reasons else None,
        waiting_jobs=_waiting(state),
        reasons=tuple(Told.of(reason) for reason in reasons),
        waits_seconds=_by_cause(waits.tolist()),
        history=episodes,
    )


def _of_closed(brain: Brain, job: JobId, episodes: tuple[Episode, ...], at: float | None) -> Answer:
    closed = brain.state.closed[job]
    return Answer(
        job=job,
        at=brain.now if at is None else max(at, brain.now),
        state=closed.state.name,
        gpus=0,
        queue="",
        nodes=(),
        waited_seconds=sum(closed.waits_seconds),
        position=None,
        waiting_jobs=_waiting(brain.state),
        reasons=(),
        waits_seconds=_by_cause(closed.waits_seconds),
        history=episodes,
    )


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


def _booked_cause(state: BrainState, slot: int) -> Cause:
    return REASONS[int(state.jobs.reason[slot]) - 1].cause


def _waiting(state: BrainState) -> int:
    jobs, size = state.jobs, state.size
    return int(np.count_nonzero(jobs.active[:size] & (jobs.state[:size] == State.QUEUED)))


def _by_cause(waits: tuple[float, ...] | list[float]) -> dict[str, float]:
    return {cause.label: seconds for cause, seconds in zip(CAUSES, waits, strict=True)}


def _near(state: BrainState, job: JobId) -> str:
    known = [*state.closed, *state.slot_of]
    near = get_close_matches(job, known, n=3)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return (
        f"it has {len(known)} jobs, such as {', '.join(known[:3])}" if known else "it has no jobs"
    )
