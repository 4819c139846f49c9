"""Failures of a recorded run: each with what was found, and the GPU time that it cost."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from weft.brain.brain import Brain
from weft.brain.event import InstructionDone, JobFailed, Verb
from weft.failure.classes import FailureClass
from weft.failure.diagnosis import NO_RULE, Diagnosis
from weft.failure.evidence import Failure
from weft.lab.journals.journal_file import JournalFile
from weft.model.ids import JobId
from weft.reconcile.belief import work_done
from weft.view.diagnosed import failure_line
from weft.view.failures import FailureLine


@dataclass(frozen=True, slots=True)
class _Try:
    """A try of a job: since when, from which work on."""

    at: float
    work: float


def failures_in(journal: Path) -> tuple[FailureLine, ...]:
    """All of them, the latest first; times are counted from 1970, as the run counts them from 0."""
    file = JournalFile(journal)
    brain, tries = file.header().brain(), dict[JobId, _Try]()
    found = []
    for entry in file.entries():
        event = entry.event
        if isinstance(event, JobFailed):
            line = _line(brain, event, tries.pop(event.job, None))
            found += [line] if line else []
        brain.handle(event)
        if isinstance(event, InstructionDone) and event.verb is Verb.START:
            slot = brain.state.slot_of.get(event.job)
            if slot is not None:
                work = work_done(brain.state, slot, event.at)
                tries.setdefault(event.job, _Try(event.at, work))
    return tuple(reversed(found))


def _line(brain: Brain, event: JobFailed, begun: _Try | None) -> FailureLine | None:
    state = brain.state
    slot = state.incarnation(event.job, event.epoch)
    if slot is None:
        return None
    spec = state.spec(slot)
    seconds = event.at - begun.at if begun else 0.0
    done, before = work_done(state, slot, event.at), begun.work if begun else 0.0
    lost = min(max((done - event.work_kept) / (done - before), 0.0), 1.0) if done > before else 1.0
    return failure_line(
        event.diagnosis or _untold(event.failure),
        namespace=spec.tenant,
        job=spec.id,
        queue=spec.queue,
        epoch=event.epoch,
        at=datetime.fromtimestamp(event.at, UTC),
        did="",
        lost_gpu_seconds=int(state.jobs.width[slot]) * seconds * lost,
    )


def _untold(failure: Failure) -> Diagnosis:
    """Of a failure that nobody looked into, its class is all that is known."""
    facts = FailureClass(failure.kind).facts
    return Diagnosis(
        kind=failure.kind,
        rule=NO_RULE,
        says=facts.meaning,
        cure=facts.retry,
        advice=facts.advice,
        line=failure.evidence,
        fingerprint="",
        node=failure.node,
        rank=failure.rank,
    )
