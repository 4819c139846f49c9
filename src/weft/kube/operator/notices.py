"""What happens to jobs of the cluster, as notices to those who want to hear of it.

They are made from what the brain hears and orders. An operator that is started anew may tell the
same thing again; it then has the same number, by which a receiver knows it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from weft.brain.event import Event, InstructionDone, JobCancelled, JobFailed, JobFinished, Verb
from weft.brain.instruction import Instruction, Preempt
from weft.brain.state.brain_state import BrainState
from weft.brain.state.closed import Closed
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.reconcile.beliefs import why_of
from weft.kube.operator.status.patches import title
from weft.model.ids import JobId
from weft.model.state import State
from weft.model.trial import is_trial
from weft.notify.notice import Notice, Occasion
from weft.notify.outbox import Outbox
from weft.view.diagnosed import failure_line
from weft.view.failures import FailureLine

MAY_END: Final = (JobFailed, JobFinished, JobCancelled, InstructionDone)


class Notices:
    """Puts notices into the outbox, if there is one."""

    def __init__(self, outbox: Outbox | None, jobs: Mapping[str, ObservedJob]) -> None:
        self._outbox, self._jobs = outbox, jobs

    def heard(self, event: Event, orders: Iterable[Instruction], state: BrainState) -> None:
        """After the brain has heard it and said what follows."""
        if self._outbox is None:
            return
        for one in happened(event, orders, state):
            observed = self._jobs.get(one[0])
            if observed is not None and not is_trial(one[0]):
                closed = state.closed.get(one[0])
                notice = _notice(observed, one, event.at, title(closed.state) if closed else "")
                self._outbox.put(notice, _asked(observed))


Happened = tuple[JobId, Occasion, str, FailureLine | None]


def happened(event: Event, orders: Iterable[Instruction], state: BrainState) -> Iterator[Happened]:
    """All that is an occasion for a notice."""
    for order in orders:
        if isinstance(order, Preempt):
            yield order.job, Occasion.PREEMPTED, why_of(order, state), None
    if isinstance(event, InstructionDone) and event.verb is Verb.START:
        yield event.job, Occasion.STARTED, "its workers run", None
    if isinstance(event, JobFailed):
        yield event.job, Occasion.FAILED, str(event.failure), _failure(event, state)
    if isinstance(event, MAY_END):
        closed = state.closed.get(event.job)
        if closed is not None and closed.at == event.at:
            yield event.job, Occasion.ENDED, closed.why or title(closed.state), None


def _failure(event: JobFailed, state: BrainState) -> FailureLine | None:
    found = event.diagnosis
    if found is None:
        return None
    namespace, _, name = event.job.partition("/")
    closed: Closed | None = state.closed.get(event.job)
    given_up = closed is not None and closed.state is State.FAILED
    return failure_line(
        found,
        namespace=namespace,
        job=name,
        queue="",
        epoch=event.epoch,
        at=datetime.fromtimestamp(event.at, UTC),
        given_up=given_up,
        did=closed.why.removeprefix(f"{found}; ") if closed and given_up else "it is tried again",
    )


def _notice(job: ObservedJob, what: Happened, at: float, state: str) -> Notice:
    _, occasion, text, failure = what
    queue = job.spec.queue if job.spec else ""
    return Notice(
        occasion=occasion,
        namespace=job.namespace,
        job=job.name,
        queue=queue,
        at_seconds=at,
        number=f"{job.uid}-{job.epoch}-{occasion.value}",
        text=text,
        state=state,
        failure=None if failure is None else replace(failure, queue=queue),
    )


def _asked(job: ObservedJob) -> Mapping[str, tuple[str, ...]]:
    told = job.spec.notify if job.spec else None
    return {} if told is None else told.by_occasion
