"""Carries out one job's actions at a time, and many jobs at once.

Each job that may need attention is looked at until nothing is left to do: events go to the brain,
actions to the API server, and the answer to each write is taken into the caches at once, so that
the next look sees it. A call that failed is not repeated here; the job is looked at again after a
while, and what is then still to be done is done. No job has two actions under way, so nothing that
is about to be created can be missed by whoever counts what is there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from random import Random
from typing import Any, Protocol, TypeVar

from weft.kube.client.api import Api
from weft.kube.client.backoff import Backoff
from weft.kube.client.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
)
from weft.kube.logs import Log
from weft.kube.metrics import Metrics
from weft.kube.names import FINALIZER, jobs_path, pod_name, pods_path
from weft.kube.operator import crash
from weft.kube.operator.executor.work_queue import WorkQueue
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.observation.metadata import controller_of
from weft.kube.operator.observation.pod import ObservedPod
from weft.kube.operator.reconcile.next_step import next_step
from weft.kube.operator.reconcile.step import (
    Action,
    AddFinalizer,
    CreatePods,
    DeleteJob,
    DeletePods,
    Look,
    Note,
    Record,
    RecordHeldUp,
    RecordSeats,
    RecordStopping,
    RemoveFinalizer,
    Settle,
    Step,
)
from weft.kube.operator.status.events import tell
from weft.kube.operator.status.patches import (
    Standing,
    aside_patch,
    decision_patch,
    in_plain_form,
    seats_patch,
    standing_patch,
)
from weft.kube.pods import PodMaker, WorkerSettings
from weft.model.state import State
from weft.reconcile.delays import Delays

log = Log("executor")

T = TypeVar("T")

WORKERS = 24
CALLS_AT_ONCE = 32
STEPS_IN_A_ROW = 20
# So RBAC speaks, and for a moment after the API server started it does so by mistake; quotas and
# admission say no in other words, and mean it.
LACKS_A_RIGHT = "cannot create resource"


class Context(Protocol):
    """What the executor needs to know of everything else."""

    def look(self, key: str, note: Note) -> Look: ...
    def deliver_all(self, step: Step) -> None: ...
    def took_job(self, raw: dict[str, Any]) -> None: ...
    def took_pod(self, raw: dict[str, Any]) -> None: ...
    def standing(self, key: str, state: State, message: str) -> Standing: ...
    def changes(self, key: str) -> int: ...
    def observed(self, key: str) -> ObservedJob | None: ...
    def aside(self, key: str) -> tuple[str, float] | None: ...
    def contain(self, key: str, error: Exception) -> bool: ...
    def now(self) -> float: ...
    def gpu_resource(self, node: str) -> str: ...
    @property
    def leader(self) -> int: ...
    @property
    def identity(self) -> str: ...


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
        self._api = api
        self._context = context
        self._settings = workers
        self._metrics = metrics
        self._random = random
        self._work_queue = WorkQueue()
        self._busy: set[str] = set()
        self._notes: dict[str, Note] = {}
        self._later = Delays(self.touch)
        self._backoffs: dict[str, Backoff] = {}
        self._calls = asyncio.Semaphore(CALLS_AT_ONCE)
        self._makers: dict[str, PodMaker] = {}

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
        for kept in (self._notes, self._backoffs, self._makers):
            kept.pop(key, None)
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
                await self._take_back(look.job, look.now)
                return True
            before = self._context.changes(key)
            for action in step.actions:
                await self._perform(look, action)
                if isinstance(action, AddFinalizer):
                    break  # the object has a new version, on which the next look is based
            if self._context.changes(key) == before and self._notes.get(key) == step.note:
                return False
            if isinstance(action, RecordStopping | RecordSeats):
                self.touch(key)
                return True  # who else must go is on record before anybody's pods are deleted
        return False

    async def _leave_alone(self, key: str, why: str, seconds: float) -> None:
        """Until then nothing is done about it; what it has, it keeps."""
        self.touch_at(key, seconds)
        job = self._context.observed(key)
        if job is None or job.set_aside == why:
            return
        now = self._context.now()
        if await self._patch_status(job, aside_patch(job, why, now)):
            await self._tell_of(job, "SetAside", why, now, bad=True)

    async def _take_back(self, job: ObservedJob | None, now: float) -> None:
        """It is looked after again: what was said of its being set aside holds no more."""
        if job is not None and job.set_aside:
            await self._patch_status(job, aside_patch(job, "", now))

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

    # --- actions --------------------------------------------------------------------------------

    async def _perform(self, look: Look, action: Action) -> None:
        await _ACTIONS[type(action)](self, look, action)

    async def _record(self, look: Look, action: Record) -> None:
        job = self._job(look)
        crash.passing("before-record")
        state = State.STARTING if look.rules.pods else State.RUNNING
        patch = decision_patch(
            job,
            action.epoch,
            action.assignment,
            state=state,
            now=look.now,
            leader=self._context.leader,
        )
        await self._patch_status(job, patch)
        crash.passing("recorded")

    async def _record_seats(self, look: Look, action: RecordSeats) -> None:
        job, under_way = self._job(look), action.state is State.RESIZING
        crash.passing("before-resize" if under_way else "before-resized")
        standing = self._context.standing(look.key, action.state, action.why)
        if not under_way:
            standing = replace(standing, gpus=action.placement.width, message="")
        patch = seats_patch(
            job,
            standing,
            action.placement,
            serial=action.serial,
            joining=action.joining,
            now=look.now,
        )
        written = await self._patch_status(job, patch)
        crash.passing("resize-recorded" if under_way else "resized")
        if written and action.cause:
            await self._tell(look, action.cause, action.why, bad=action.cause != "Resizing")

    async def _record_stopping(self, look: Look, action: RecordStopping) -> None:
        job = self._job(look)
        crash.passing("before-stop")
        standing = self._context.standing(look.key, State.STOPPING, action.why)
        written = await self._patch_status(job, standing_patch(job, standing, look.now))
        crash.passing("stop-recorded")
        if written:
            await self._tell(look, "Stopping", action.why, bad=False)

    async def _record_held_up(self, look: Look, action: RecordHeldUp) -> None:
        job, state = self._job(look), look.belief.state
        assert state is not None
        standing = replace(self._context.standing(look.key, state, action.why), held_up=action.why)
        if await self._patch_status(job, standing_patch(job, standing, look.now)):
            await self._tell(look, "WorkersStay", action.why, bad=True)

    async def _settle(self, look: Look, action: Settle) -> None:
        job = self._job(look)
        crash.passing("before-final")
        standing = self._context.standing(look.key, action.state, action.message)
        written = await self._patch_status(job, standing_patch(job, standing, look.now))
        crash.passing("final")
        if written and action.state is State.FAILED:
            await self._tell(look, "Failed", action.message, bad=True)

    async def _tell(self, look: Look, reason: str, note: str, *, bad: bool) -> None:
        await self._tell_of(self._job(look), reason, note, look.now, bad=bad)

    async def _tell_of(
        self, job: ObservedJob, reason: str, note: str, now: float, *, bad: bool
    ) -> None:
        instance = self._context.identity
        await tell(self._api, job, reason=reason, note=note, now=now, instance=instance, bad=bad)

    async def _patch_status(self, job: ObservedJob, patch: dict[str, Any]) -> bool:
        """Under a version; on a conflict the newest view is fetched and the next look decides."""
        path = jobs_path(job.namespace, job.name)
        try:
            raw = await self._api.patch(f"{path}/status", patch)
            if lost := in_plain_form(patch, raw):
                raw = await self._api.patch(f"{path}/status", lost)
            self._context.took_job(raw)
            self._metrics.status_written()
        except Conflict:
            self._metrics.status_written("conflict")
            self._context.took_job(await self._api.get(path))
            return False
        return True

    async def _create_pods(self, look: Look, action: CreatePods) -> None:
        job = self._job(look)
        maker = self._maker(job)
        seats = action.placement.seats
        if maker.is_named(seats) and (why := await self._create_surroundings(job, maker)):
            self._notes[look.key] = Note(refusal=(action.epoch, action.serial, why))
            return
        leader = self._context.leader
        bodies = {
            seat.number: maker.pod(
                epoch=action.epoch,
                seats=seats,
                number=seat.number,
                leader=leader,
                gpu_resource=self._context.gpu_resource(seat.node),
            )
            for seat in seats
            if seat.number in action.numbers
        }
        refusals = await self._all(
            self._create_pod(job, pod_name(job.name, action.epoch, number), body)
            for number, body in bodies.items()
        )
        why = next((refusal for refusal in refusals if refusal), None)
        if why:
            self._notes[look.key] = Note(refusal=(action.epoch, action.serial, why))
        crash.passing("joined" if action.serial else "gathered")

    async def _create_pod(self, job: ObservedJob, name: str, body: dict[str, Any]) -> str | None:
        """What speaks against the pod, if the API server will not have it."""
        try:
            raw = await self._api.create(pods_path(job.namespace), body)
            self._metrics.pods_created()
        except AlreadyExists:
            raw = await self._api.get(pods_path(job.namespace, name))
        except (Forbidden, Invalid, NotFound) as error:
            if LACKS_A_RIGHT in str(error):
                raise
            return f"{name}: {error}"
        self._context.took_pod(raw)
        crash.passing("created")
        return None

    async def _create_surroundings(self, job: ObservedJob, maker: PodMaker) -> str | None:
        """Workers of a gang find each other by name, and others do not reach them."""
        about = f"namespaces/{job.namespace}"
        if self._settings.isolated:
            path = f"/apis/networking.k8s.io/v1/{about}/networkpolicies"
            if why := await self._create_for(job, path, maker.network_policy()):
                return why
        return await self._create_for(job, f"/api/v1/{about}/services", maker.service())

    async def _create_for(self, job: ObservedJob, path: str, body: dict[str, Any]) -> str | None:
        """What speaks against it, if somebody else has the name.

        That of an earlier job of the same name goes with its job, which may take a while.
        """
        kind, name = body["kind"], body["metadata"]["name"]
        try:
            await self._api.create(path, body)
            return None
        except AlreadyExists:
            owner = controller_of((await self._api.get(f"{path}/{name}"))["metadata"])
        if not owner:
            return f"there is a {kind} {name} that Weft has not made: remove it"
        if owner != job.uid:
            raise Conflict(f"the {kind} {name} is still that of a job that is gone")
        return None

    async def _delete_pods(self, look: Look, action: DeletePods) -> None:
        await self._all(self._delete_pod(pod, now=action.now) for pod in action.pods)
        if action.now and look.job is not None:
            named = ", ".join(sorted(pod.name for pod in action.pods))
            await self._tell(look, "GivenUp", f"{named}: {action.why}", bad=True)

    async def _delete_pod(self, pod: ObservedPod, *, now: bool) -> None:
        path = pods_path(pod.namespace, pod.name)
        try:
            raw = await self._api.delete(path, uid=pod.uid, grace_seconds=0 if now else None)
            self._metrics.pods_deleted()
        except NotFound:
            return
        except Conflict:
            raw = await self._api.get(path)
        if raw is not None:
            self._context.took_pod(raw)
        crash.passing("deleted")

    async def _add_finalizer(self, look: Look, action: AddFinalizer) -> None:
        await self._change_finalizers(self._job(look), add=True)

    async def _remove_finalizer(self, look: Look, action: RemoveFinalizer) -> None:
        await self._change_finalizers(self._job(look), add=False)

    async def _change_finalizers(self, job: ObservedJob, *, add: bool) -> None:
        """The list may hold other people's entries, so it is read before it is written."""
        path = jobs_path(job.namespace, job.name)
        try:
            raw = await self._api.get(path)
        except NotFound:
            return
        about = raw["metadata"]
        kept = [name for name in about.get("finalizers") or () if name != FINALIZER]
        wanted = [*kept, FINALIZER] if add else kept
        body = {"metadata": {"resourceVersion": about["resourceVersion"], "finalizers": wanted}}
        self._context.took_job(await self._api.patch(path, body))

    async def _delete_job(self, look: Look, action: DeleteJob) -> None:
        job = self._job(look)
        try:
            raw = await self._api.delete(
                jobs_path(job.namespace, job.name), uid=job.uid, propagation="Background"
            )
        except NotFound:
            return
        if raw is not None:
            self._context.took_job(raw)

    # --- helpers ------------------------------------------------------------------------------

    def _job(self, look: Look) -> ObservedJob:
        assert look.job is not None
        return look.job

    def _maker(self, job: ObservedJob) -> PodMaker:
        found = self._makers.get(job.key)
        if found is None or found.uid != job.uid:
            assert job.spec is not None
            found = PodMaker(
                self._settings, namespace=job.namespace, name=job.name, uid=job.uid, spec=job.spec
            )
            self._makers[job.key] = found
        return found

    async def _all(self, calls: Iterable[Awaitable[T]]) -> list[T]:
        """At once, but not too many; the first error is raised when all are over."""

        async def one(call: Awaitable[T]) -> T:
            async with self._calls:
                return await call

        results = await asyncio.gather(*(one(call) for call in calls), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [result for result in results if not isinstance(result, BaseException)]


_ACTIONS: dict[type, Callable[[Executor, Look, Any], Awaitable[None]]] = {
    Record: Executor._record,
    RecordSeats: Executor._record_seats,
    RecordStopping: Executor._record_stopping,
    RecordHeldUp: Executor._record_held_up,
    Settle: Executor._settle,
    CreatePods: Executor._create_pods,
    DeletePods: Executor._delete_pods,
    AddFinalizer: Executor._add_finalizer,
    RemoveFinalizer: Executor._remove_finalizer,
    DeleteJob: Executor._delete_job,
}
