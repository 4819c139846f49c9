"""Carries out one job's actions at a time, and many jobs at once.

Each job that may need attention is looked at until nothing is left to do: events go to the brain,
actions to the API server, and the answer to each write is taken into the caches at once, so that
the next look sees it. A call that failed is not repeated here; the job is looked at again after a
while, and what is then still to be done is done. No job has two actions under way, so nothing that
is about to be created can be missed by whoever counts what is there.
"""

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Protocol

from weft.kube.client.api import Api
from weft.kube.client.backoff import Backoff
from weft.kube.client.errors import ApiError
from weft.kube.logs import Log
from weft.kube.metrics import Metrics
from weft.kube.operator.executor import actions
from weft.kube.operator.executor.actions import Actions
from weft.kube.operator.executor.work_queue import WorkQueue
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.reconcile.next_step import next_step
from weft.kube.operator.reconcile.step import (
    Action,
    AddFinalizer,
    AskProbes,
    Look,
    Note,
    RecordSeats,
    RecordStopping,
    Step,
)
from weft.kube.pods import WorkerSettings
from weft.reconcile.delays import Delays

log = Log("executor")

WORKERS = 24
STEPS_IN_A_ROW = 20


class Context(actions.Context, Protocol):
    """What the executor needs to know of everything else."""

    def look(self, key: str, note: Note) -> Look: ...
    def deliver_all(self, step: Step) -> None: ...
    def changes(self, key: str) -> int: ...
    def observed(self, key: str) -> ObservedJob | None: ...
    def aside(self, key: str) -> tuple[str, float] | None: ...
    def contain(self, key: str, error: Exception) -> bool: ...
    def now(self) -> float: ...


class Executor:
    """Looks after all jobs that somebody touched."""

    def __init__(
        self,
        api: Api,
        context: Context,
        *,
        workers: WorkerSettings,
        metrics: Metrics,
        random: Random,
    ) -> None:
        self._context = context
        self._actions = Actions(api, context, workers=workers, metrics=metrics)
        self._random = random
        self._work_queue = WorkQueue()
        self._busy: set[str] = set()
        self._notes: dict[str, Note] = {}
        self._later = Delays(self.touch)
        self._backoffs: dict[str, Backoff] = {}

    @property
    def backlog(self) -> int:
        return len(self._work_queue)

    def is_busy(self, key: str) -> bool:
        return key in self._busy or key in self._work_queue

    def touch(self, key: str) -> None:
        """Something about this job may have changed."""
        self._work_queue.put(key)

    def touch_first(self, key: str) -> None:
        """The brain has decided about this job: it goes before those that may have changed."""
        self._work_queue.put_first(key)

    def touch_at(self, key: str, delay_seconds: float) -> None:
        """Look again then, unless something happens before."""
        self._later.set(key, delay_seconds)

    def forget(self, key: str) -> None:
        """The job is gone."""
        for kept in (self._notes, self._backoffs):
            kept.pop(key, None)
        self._actions.forget(key)
        self._later.forget(key)

    async def run(self) -> None:
        """For ever, until cancelled or no longer leading."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work())

    def stop(self) -> None:
        self._later.clear()

    async def _work(self) -> None:
        while True:
            key = await self._work_queue.get()
            if key in self._busy:
                self.touch_at(key, 0.02)
                continue
            self._busy.add(key)
            try:
                aside = self._context.aside(key)
                if aside is not None:
                    await self._leave_alone(key, *aside)
                elif await self._attend(key):
                    self._backoffs.pop(key, None)
                else:
                    self.touch_at(key, self._backoff(key).next_seconds())
            except ApiError as error:
                self._try_later(key, error)
            except Exception as error:
                if not self._context.contain(key, error):
                    raise
                self.touch(key)
            finally:
                self._busy.discard(key)

    async def _attend(self, key: str) -> bool:
        """Step by step; whether it has led to anything. If not, it is for later."""
        for _ in range(STEPS_IN_A_ROW):
            look = self._context.look(key, self._notes.get(key, Note()))
            step = next_step(look)
            self._remember(key, step.note)
            if step.events:
                self._context.deliver_all(step)
                continue
            if step.look_at is not None:
                self.touch_at(key, step.look_at - look.now)
            if not step.actions:
                if look.job is not None and look.job.set_aside:
                    await self._actions.take_back(look.job, look.now)
                return True
            before = self._context.changes(key)
            last = await self._perform(look, step.actions)
            if isinstance(last, AskProbes):
                continue  # the next look sees who was asked
            if self._context.changes(key) == before and self._notes.get(key, Note()) == step.note:
                return False
            if isinstance(last, RecordStopping | RecordSeats):
                self.touch(key)
                return True  # who else must go is on record before anybody's pods are deleted
        return False

    async def _perform(self, look: Look, actions: Iterable[Action]) -> Action | None:
        """One after the other; the last one that was carried out."""
        action = None
        for action in actions:
            note = await self._actions.perform(look, action)
            if note is not None:
                self._notes[look.key] = note
            if isinstance(action, AddFinalizer):
                break  # the object has a new version, on which the next look is based
        return action

    async def _leave_alone(self, key: str, why: str, seconds: float) -> None:
        """Until then nothing is done about it; what it has, it keeps."""
        self.touch_at(key, seconds)
        job = self._context.observed(key)
        if job is not None and job.set_aside != why:
            await self._actions.set_aside(job, why, self._context.now())

    def _remember(self, key: str, note: Note) -> None:
        if note == Note():
            self._notes.pop(key, None)
        else:
            self._notes[key] = note

    def _try_later(self, key: str, error: ApiError) -> None:
        wait = self._backoff(key).next_seconds(at_least=error.retry_after_seconds)
        log.warning("call_failed", job=key, error=str(error), again_in_seconds=wait)
        self.touch_at(key, wait)

    def _backoff(self, key: str) -> Backoff:
        found = self._backoffs.get(key)
        if found is None:
            found = self._backoffs[key] = Backoff(self._random)
        return found
