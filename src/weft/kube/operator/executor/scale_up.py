"""Keeps placeholders for jobs that wait for GPUs that are not there; off unless it is asked for.

A job is stood for as a whole or not at all, the first in line first, and never by more pods than
were allowed: half of a gang's nodes would cost money and start nothing. Jobs that wait for their
quota or for their turn are not stood for, because no node would help them.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from weft.brain.state.brain_state import BrainState
from weft.brain.state.waits import REASONS
from weft.kube.client.api import Api
from weft.kube.client.errors import AlreadyExists, ApiError, NotFound
from weft.kube.logs import Log
from weft.kube.names import PLACEHOLDER_LABEL, pods_path
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.observation.pod import is_placeholder
from weft.kube.placeholders import placeholder, shapes_of
from weft.kube.pods import Manifest, WorkerSettings
from weft.kube.reading.paging import list_all
from weft.model.errors import SpecError
from weft.model.reason import ReasonCode
from weft.model.state import State

LOOK_SECONDS: Final = 5.0
LACKING: Final = frozenset(
    (
        ReasonCode.CAPACITY_BUSY,
        ReasonCode.CAPACITY_HOST,
        ReasonCode.FRAGMENTED,
        ReasonCode.CONSTRAINT_TYPE,
        ReasonCode.CONSTRAINT_NEVER,
        ReasonCode.HEALTH_LOST,
    )
)

log = Log("scale-up")


class WaitingJobs(Protocol):
    """What is known of jobs."""

    @property
    def brain_state(self) -> BrainState: ...
    @property
    def observed_jobs(self) -> Mapping[str, ObservedJob]: ...


@dataclass(frozen=True, slots=True)
class ScaleUp:
    """How many placeholders there may be at once, and their PriorityClass."""

    pods: int = 0
    priority_class: str = ""


NO_SCALE_UP: Final = ScaleUp()


class Placeholders:
    """One look after the other: what is wanted, what is there, and the difference."""

    def __init__(
        self, api: Api, waiting: WaitingJobs, settings: ScaleUp, workers: WorkerSettings
    ) -> None:
        self._api = api
        self._waiting = waiting
        self._settings = settings
        self._workers = workers

    async def run(self) -> None:
        """For ever; without a bound there is nothing to do."""
        if not self._settings.pods:
            await asyncio.Event().wait()
        while True:
            try:
                await self._look()
            except ApiError as error:
                log.warning("call_failed", error=str(error))
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        wanted = {_key(body): body for body in self.wanted()}
        params = {"labelSelector": PLACEHOLDER_LABEL}
        listed = (await list_all(self._api, pods_path(), params)).items
        there = {_key(raw): raw for raw in listed if is_placeholder(raw)}
        for key, raw in there.items():
            if key not in wanted and "deletionTimestamp" not in raw["metadata"]:
                await self._remove(raw)
        for key, body in wanted.items():
            if key not in there:
                await self._make(body)

    def wanted(self) -> list[Manifest]:
        """The pods that should be there now."""
        found: list[Manifest] = []
        node_gpus = largest_node(self._waiting.brain_state)
        for job in lacking(self._waiting.brain_state, self._waiting.observed_jobs):
            try:
                bodies = self._of(job, node_gpus)
            except SpecError:  # no image: it is told as the job's own reason
                continue
            if len(found) + len(bodies) <= self._settings.pods:
                found += bodies
        return found

    def _of(self, job: ObservedJob, node_gpus: int) -> list[Manifest]:
        assert job.spec is not None
        return [
            placeholder(
                self._workers,
                job.spec,
                job=(job.namespace, job.name, job.uid),
                number=number,
                shape=shape,
                priority_class=self._settings.priority_class,
            )
            for number, shape in enumerate(shapes_of(job.spec, node_gpus))
        ]

    async def _make(self, body: Manifest) -> None:
        try:
            await self._api.create(pods_path(body["metadata"]["namespace"]), body)
        except AlreadyExists:
            return
        log.info("asked_for_room", pod="/".join(_key(body)))

    async def _remove(self, raw: Mapping[str, Any]) -> None:
        about = raw["metadata"]
        path = pods_path(about["namespace"], about["name"])
        try:
            await self._api.delete(path, uid=about["uid"], grace_seconds=0)
        except NotFound:
            return


def lacking(state: BrainState, observed_jobs: Mapping[str, ObservedJob]) -> list[ObservedJob]:
    """Jobs that wait for what is not there, the first in line first."""
    jobs, found = state.jobs, []
    for key, slot in state.slot_of.items():
        row, job = int(jobs.reason[slot]), observed_jobs.get(key)
        if state.state_of(slot) is not State.QUEUED or not row or REASONS[row - 1] not in LACKING:
            continue
        if job is not None and job.spec is not None:
            found.append((-int(jobs.priority[slot]), int(jobs.seq[slot]), job))
    return [job for _, _, job in sorted(found, key=lambda entry: entry[:2])]


def largest_node(state: BrainState) -> int:
    """GPUs of the largest that was ever told: a new one is taken to be like it."""
    return max((node.gpus for node in state.node_table.specs), default=0)


def _key(body: Mapping[str, Any]) -> tuple[str, str]:
    return str(body["metadata"]["namespace"]), str(body["metadata"]["name"])
