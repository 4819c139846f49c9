"""Actions as calls to the API server; the answer to each is taken into the caches at once.

A write carries the version of the object that it was decided on. Where the API server has a newer
one, that is fetched and nothing is written: the next look decides. Between two calls the operator
may die at each point that has a name (`crash`), and whoever comes after it goes on from there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from weft.failure.interval import Advice
from weft.kube.claims import claim, claim_name, claims_path, shared
from weft.kube.client.api import Api, PatchKind
from weft.kube.client.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
)
from weft.kube.devices import read_claim
from weft.kube.logs import Log
from weft.kube.metrics import Metrics
from weft.kube.names import FINALIZER, jobs_path, pod_name, pods_path
from weft.kube.operator import crash
from weft.kube.operator.executor.trial_object import trial_object
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.observation.metadata import controller_of, controlling_job
from weft.kube.operator.observation.pod import ObservedPod, read_pod
from weft.kube.operator.reconcile.step import (
    Action,
    AddFinalizer,
    AskProbes,
    CreatePods,
    CreateTrial,
    DeleteJob,
    DeletePods,
    Look,
    Note,
    Record,
    RecordHeldUp,
    RecordRefused,
    RecordSeats,
    RecordStopping,
    RecordWait,
    RemoveFinalizer,
    Settle,
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
from weft.kube.pod_plans import with_plan
from weft.kube.pods import PodMaker, WorkerSettings, owner_of
from weft.model.state import State

T = TypeVar("T")

log = Log("executor")

CALLS_AT_ONCE = 32
# So RBAC speaks, and for a moment after the API server started it does so by mistake; quotas and
# admission say no in other words, and mean it.
LACKS_A_RIGHT = "cannot create resource"


class Context(Protocol):
    """What has to be known to carry out an action, and who hears what was written."""

    def took_job(self, raw: dict[str, Any]) -> None: ...
    def took_pod(self, raw: dict[str, Any]) -> None: ...
    def standing(self, key: str, state: State, message: str) -> Standing: ...
    def gpu_resource(self, node: str) -> str: ...
    def saving_advice(self, key: str) -> Advice: ...
    def made_trial(self, uid: str) -> None: ...
    def ask_probes(self, key: str, nodes: Sequence[str]) -> None: ...
    @property
    def leader(self) -> int: ...
    @property
    def identity(self) -> str: ...


class Actions:
    """Carries out one action after the other, whichever job it is for."""

    def __init__(
        self, api: Api, context: Context, *, workers: WorkerSettings, metrics: Metrics
    ) -> None:
        self._api = api
        self._context = context
        self._settings = workers
        self._metrics = metrics
        self._calls = asyncio.Semaphore(CALLS_AT_ONCE)
        self._makers: dict[str, PodMaker] = {}

    def forget(self, key: str) -> None:
        """The job is gone."""
        self._makers.pop(key, None)

    async def perform(self, look: Look, action: Action) -> Note | None:
        """Do it; what is to be remembered, where the API server will not have it."""
        return await _ACTIONS[type(action)](self, look, action)

    async def set_aside(self, job: ObservedJob, why: str, now: float) -> None:
        """Say why nothing is done about it."""
        if await self._patch_status(job, aside_patch(job, why, now)):
            await self._tell_of(job, "SetAside", why, now, bad=True)

    async def take_back(self, job: ObservedJob, now: float) -> None:
        """It is looked after again: what was said of its being set aside holds no more."""
        await self._patch_status(job, aside_patch(job, "", now))

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
            told=self._context.standing(look.key, state, "") if job.epoch else None,
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
            plan=action.plan,
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
        log.warning("workers_stay", job=look.key, why=action.why)
        if await self._patch_status(job, standing_patch(job, standing, look.now)):
            await self._tell(look, "WorkersStay", action.why, bad=True)

    async def _ask_probes(self, look: Look, action: AskProbes) -> None:
        self._context.ask_probes(look.key, action.nodes)

    async def _record_wait(self, look: Look, action: RecordWait) -> None:
        """It is not on record that it starts, so it waits."""
        job = self._job(look)
        standing = Standing(State.QUEUED, reasons=(action.reason,))
        await self._patch_status(job, standing_patch(job, standing, look.now))

    async def _record_refused(self, look: Look, action: RecordRefused) -> None:
        job, standing = self._job(look), self._context.standing(look.key, action.state, "")
        await self._patch_status(job, standing_patch(job, standing, look.now))

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

    async def _create_pods(self, look: Look, action: CreatePods) -> Note | None:
        why = await self._create_workers(look, action)
        if not why:
            return None
        log.warning("start_refused", job=look.key, epoch=action.epoch, why=why)
        if not action.serial:
            await self._tell(look, "NotStarted", why, bad=True)
        return Note(refusal=(action.epoch, action.serial, why))

    async def _create_workers(self, look: Look, action: CreatePods) -> str | None:
        """Create pods and what they need; what speaks against the first that is refused."""
        job = self._job(look)
        maker = self._maker(job)
        seats = action.placement.seats
        if maker.is_named(seats) and (why := await self._create_surroundings(job, maker)):
            return why
        leader, claims = self._context.leader, self._claims(job, action)
        for name, gpus in claims.values():
            if why := await self._claim(job, name, gpus):
                return why
        advice = self._context.saving_advice(look.key)
        assert job.spec is not None
        width = action.placement.width
        bodies = {
            seat.number: with_plan(
                maker.pod(
                    epoch=action.epoch,
                    seats=seats,
                    number=seat.number,
                    leader=leader,
                    gpu_resource=self._context.gpu_resource(seat.node),
                    claim=claims.get(seat.number, ("", 0))[0],
                    advice=advice,
                ),
                job.spec,
                job.plan,
                width,
            )
            for seat in seats
            if seat.number in action.numbers
        }
        refusals = await self._all(
            self._create_pod(job, pod_name(job.name, action.epoch, number), body)
            for number, body in bodies.items()
        )
        crash.passing("joined" if action.serial else "gathered")
        return next((refusal for refusal in refusals if refusal), None)

    def _claims(self, job: ObservedJob, action: CreatePods) -> dict[int, tuple[str, int]]:
        """By seat: the name of the claim that its GPUs come from, and how many those are."""
        if not self._settings.nodes.gpu_class:
            return {}
        return {
            seat.number: (claim_name(job.name, action.epoch, seat.number, job.party), seat.gpus)
            for seat in action.placement.seats
            if seat.gpus and seat.number in action.numbers
        }

    async def _claim(self, job: ObservedJob, name: str, gpus: int) -> str | None:
        """Make the claim, or use the one that a member of the party made; what speaks against it.

        One that is on its way out belonged to those who have left: it is waited for.
        """
        owner, kind = owner_of(job.name, job.uid), self._settings.nodes.gpu_class
        body = claim(job.namespace, name, gpus, job=job.name, owner=owner, kind=kind)
        try:
            await self._api.create(claims_path(job.namespace), body)
            return None
        except AlreadyExists:
            raw = await self._api.get(claims_path(job.namespace, name))
        except (Forbidden, Invalid, NotFound) as error:
            if LACKS_A_RIGHT in str(error):
                raise
            return f"{name}: {error}"
        about = raw["metadata"]
        if not read_claim(raw).job:
            return describe_name_conflict(job, "ResourceClaim", name)
        if "deletionTimestamp" in about:
            raise Conflict(f"the ResourceClaim {name} is still that of jobs that have left")
        await self._own_too(job, name, about)
        crash.passing("claimed")
        return None

    async def _own_too(self, job: ObservedJob, name: str, about: dict[str, Any]) -> None:
        """The claim goes with the last job that owns it.

        By a patch that adds to the list whatever else is written meanwhile: while the pod of a
        member that has ended is kept, Kubernetes' own controller writes the claim's status again
        and again (kubernetes/kubernetes#141274), and no version that was read is the newest.
        """
        owners = about.get("ownerReferences") or []
        if any(owner["uid"] == job.uid for owner in owners):
            return
        owner = shared(owner_of(job.name, job.uid))
        body = {"metadata": {"uid": about["uid"], "ownerReferences": [owner]}}
        await self._api.patch(claims_path(job.namespace, name), body, kind=PatchKind.STRATEGIC)

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
        if not self._took_worker(raw):
            return describe_name_conflict(job, "Pod", name)
        crash.passing("created")
        return None

    def _took_worker(self, raw: dict[str, Any]) -> bool:
        """Take the pod into the cache if it is Weft's; a pod that is not is never adopted."""
        if not read_pod(raw).job:
            return False
        self._context.took_pod(raw)
        return True

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
            about = (await self._api.get(f"{path}/{name}"))["metadata"]
        if controlling_job(about) != job.name:
            return describe_name_conflict(job, kind, name)
        if controller_of(about) != job.uid:
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
            self._took_worker(raw)
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

    async def _create_trial(self, look: Look, action: CreateTrial) -> Note | None:
        """One that is there already and that nobody has looked at is as good as a new one."""
        gang, name = action.gang, look.key.partition("/")[2]
        try:
            raw = await self._api.create(jobs_path(gang.namespace), trial_object(gang))
        except AlreadyExists:
            raw = await self._api.get(jobs_path(gang.namespace, name))
            if controller_of(raw["metadata"]) != gang.uid or raw.get("status"):
                raise Conflict(f"{name} is still there from before") from None
        except (Forbidden, Invalid, NotFound) as error:
            return Note(refusal=(look.belief.epoch, 0, f"{name}: {error}"))
        self._context.made_trial(raw["metadata"]["uid"])
        self._context.took_job(raw)
        crash.passing("trial-made")
        return None

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


def describe_name_conflict(job: ObservedJob, kind: str, name: str) -> str:
    """What to tell the owner of a job when another object has the name of one that it needs."""
    what = "a worker" if kind == "Pod" else f"the {kind}"
    return (
        f"{kind} {name} in namespace {job.namespace} has the name of {what} of this job and is not "
        f"Weft's. Remove it (kubectl delete {kind.lower()} -n {job.namespace} {name}), or submit "
        f"the job under another name"
    )


_ACTIONS: dict[type, Callable[[Actions, Look, Any], Awaitable[Note | None]]] = {
    Record: Actions._record,
    RecordSeats: Actions._record_seats,
    RecordStopping: Actions._record_stopping,
    RecordHeldUp: Actions._record_held_up,
    Settle: Actions._settle,
    CreateTrial: Actions._create_trial,
    AskProbes: Actions._ask_probes,
    RecordWait: Actions._record_wait,
    RecordRefused: Actions._record_refused,
    CreatePods: Actions._create_pods,
    DeletePods: Actions._delete_pods,
    AddFinalizer: Actions._add_finalizer,
    RemoveFinalizer: Actions._remove_finalizer,
    DeleteJob: Actions._delete_job,
}
