"""Trials of gangs: while one waits for its seats, its first minutes run on one GPU.

A gang that can start is never kept waiting for it: a trial begins when a round has left the gang
without seats, and ends when the gang gets some, or when some gang could start with its GPU. What a
trial dies of, the gang has died of: it is given up, or tried again, as the class says, before it
has cost a second of its GPUs. Programs that have run well before are trusted and not tried.

The pool of trials sizes itself: as many at once as come within the length of one, and no more than
a hundredth of the GPUs.
"""

from collections.abc import Callable
from math import ceil
from typing import Final

from weft.brain.context import Context
from weft.brain.event import JobCancelled, JobFailed, JobFinished, JobForgotten, JobSubmitted
from weft.brain.protocol.admission import Admission
from weft.brain.protocol.way import in_the_way
from weft.brain.state.waits import CAUSE_OF_ROW
from weft.failure.diagnosis import Diagnosis
from weft.failure.retry import Run, Terms, decide
from weft.model.ids import JobId
from weft.model.reason import Cause
from weft.model.state import State
from weft.model.trial import SUFFIX, is_trial, trial_of, tried_by

MOST_SHARE: Final = 0.01
WINDOW_SECONDS: Final = 3_600.0
MOST_ARRIVALS: Final = 1_000
SHORT_OF_SEATS: Final = frozenset(
    {Cause.CAPACITY, Cause.FRAGMENTATION, Cause.PRIORITY, Cause.RESERVATION, Cause.LOCALITY}
)


class Trials:
    """Begins, ends and judges them, where the settings ask for trials at all."""

    def __init__(
        self,
        context: Context,
        *,
        admission: Admission,
        submit: Callable[[JobSubmitted], None],
        cancel: Callable[[JobCancelled], None],
    ) -> None:
        self._context = context
        self._admission = admission
        self._submit = submit
        self._cancel = cancel

    def submitted(self, event: JobSubmitted) -> None:
        """A new gang whose program has not run well here before."""
        book, job = self._context.state.failures.trials, event.job
        if not self._context.settings.trial_seconds or job.id not in self._context.state.slot_of:
            return
        if job.width.min_gpus > 1 and (job.tenant, job.program) not in book.trusted:
            book.candidates.setdefault(job.id)
            since = self._context.now - WINDOW_SECONDS
            recent = (*(at for at in book.arrived if at > since), self._context.now)
            book.arrived = recent[-MOST_ARRIVALS:]

    def finished(self, event: JobFinished) -> None:
        """A trial that has passed leaves its gang alone; a gang's own success is trusted."""
        state, book = self._context.state, self._context.state.failures.trials
        book.under_way.pop(tried_by(event.job), None)
        slot = state.slot_of.get(event.job)
        spec = None if slot is None else state.spec(slot)
        if spec is not None and spec.program and not is_trial(event.job):
            book.trusted.add((spec.tenant, spec.program))

    def failed(self, event: JobFailed) -> None:
        """What the trial died of is held against its gang, if that still waits."""
        if not is_trial(event.job):
            return
        state, gang = self._context.state, tried_by(event.job)
        state.failures.trials.under_way.pop(gang, None)
        slot = state.slot_of.get(gang)
        if slot is None or event.diagnosis is None or state.state_of(slot) is not State.QUEUED:
            return
        self._judge(slot, gang, event.diagnosis)

    def _judge(self, slot: int, gang: JobId, found: Diagnosis) -> None:
        state, book = self._context.state, self._context.state.failures
        now, most = self._context.now, state.spec(slot).max_retries
        run = Run(job=gang, at_seconds=now, ran_seconds=0.0, saved=0)
        state.jobs.failures[slot] += 1
        book.last[slot] = found
        verdict, book.retries[slot] = decide(found, run, book.retry(slot), Terms(max_retries=most))
        if verdict.retry_after_seconds is None:
            self._admission.close(slot, State.FAILED, f"{verdict.why} (seen on one GPU)")

    def forgotten(self, event: JobForgotten) -> None:
        """Another gang may come to have its name, and is tried anew."""
        if not is_trial(event.job):
            self._context.state.closed.pop(JobId(event.job + SUFFIX), None)

    def look(self) -> None:
        """After a round: gangs that got seats need no trial, and some of those that wait do."""
        state, book = self._context.state, self._context.state.failures.trials
        if not (book.candidates or book.under_way):
            return
        for gang in [gang for gang in book.under_way if not self._waits(gang)]:
            del book.under_way[gang]
            self._cancel(JobCancelled(self._context.now, JobId(gang + SUFFIX)))
        for gang in [gang for gang in book.under_way if JobId(gang + SUFFIX) in state.closed]:
            del book.under_way[gang]  # somebody ended it
        for trial in in_the_way(state, (JobId(gang + SUFFIX) for gang in book.under_way)):
            del book.under_way[tried_by(trial)]
            self._cancel(JobCancelled(self._context.now, trial))
        for gang in [gang for gang in book.candidates if not self._waits(gang)]:
            del book.candidates[gang]
        room = self.pool() - len(book.under_way)
        short = [gang for gang in book.candidates if self._is_short_of_seats(gang)]
        for gang in short[: max(room, 0)]:
            del book.candidates[gang]
            book.under_way[gang] = None
            seconds = self._context.settings.trial_seconds
            request = trial_of(state.spec(state.slot_of[gang]), seconds, self._context.now)
            self._submit(JobSubmitted(self._context.now, request))

    def pool(self) -> int:
        """How many may be under way: by Little's law, within a hundredth of the GPUs."""
        state, seconds = self._context.state, self._context.settings.trial_seconds
        coming = len(state.failures.trials.arrived) * seconds / WINDOW_SECONDS
        most = max(int(MOST_SHARE * state.fabric.total.gpus), 1)
        return min(max(ceil(coming), 1), most)

    def _waits(self, gang: JobId) -> bool:
        """For the first time."""
        state = self._context.state
        slot = state.slot_of.get(gang)
        queued = slot is not None and state.state_of(slot) is State.QUEUED
        return queued and not state.jobs.epoch[slot]

    def _is_short_of_seats(self, gang: JobId) -> bool:
        state = self._context.state
        row = int(state.jobs.reason[state.slot_of[gang]])
        return int(CAUSE_OF_ROW[row]) in SHORT_OF_SEATS
