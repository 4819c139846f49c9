"""Why jobs wait, told for whole namespaces at once and as often as it changes.

A reason in a job's status costs a write per job; ten thousand of them would take minutes, and be
old by then. So the reasons of a namespace stand in a report of a few parts, each of which is
written when one of its jobs waits for something else, and now and then for the sake of its numbers.
Writing is paced by bytes: a cluster with many waiting jobs hears of them a little later, and its
API server carries no more for it.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import orjson

from weft.brain.explain import Survey
from weft.brain.state.brain_state import BrainState
from weft.kube.client.api import APPLY, Api
from weft.kube.client.errors import ApiError, Forbidden, NotFound
from weft.kube.logs import Log
from weft.kube.metrics import Metrics
from weft.kube.names import (
    API_VERSION,
    WAIT_REPORT_KIND,
    wait_part,
    wait_report_name,
    wait_reports_path,
)
from weft.kube.operator.status.patches import MESSAGE_LIMIT, stamp
from weft.model.ids import JobId
from weft.model.reason import Reason
from weft.model.state import State
from weft.view.reasons import counted, possible

LOOK_SECONDS = 1.0
CHANGED_SECONDS = 3.0  # between two writes of one part, where a job waits for something else
LATEST_CHANGED_SECONDS = 8.0  # … where very many wait
NUMBERS_SECONDS = 30.0  # … where only numbers may differ
JOBS_A_SECOND = 1_000  # of which it is found out why they wait: who decides does nothing else then
ASK_AGAIN_SECONDS = 300.0  # whether the cluster knows of reports by now
BYTES_A_SECOND = 512 * 1024
LEAST_BYTES = 8 * 1024  # what a small write counts as
MOST_BYTES = 900_000  # of one part; the store takes no object beyond 1.5 MB
JOBS_A_PART = 1024
LANES = 4

Place = tuple[str, int]  # namespace and part

log = Log("waits")


class WaitSource(Protocol):
    """What is read."""

    @property
    def brain_state(self) -> BrainState: ...
    @property
    def leader(self) -> int: ...
    def now(self) -> float: ...
    def survey(self) -> Survey: ...
    def why_it_waits(self, survey: Survey, key: str, state: State) -> Sequence[Reason]: ...
    def contain(self, key: str, error: Exception) -> bool: ...


@dataclass(slots=True)
class Part:
    """What was told last of one part, and when."""

    told: int | None = None  # a digest of who waits, and for what
    at: float = float("-inf")


@dataclass(slots=True)
class Group:
    """The waiting jobs of one part: keys, and what distinguishes this moment from another."""

    keys: list[str] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)


class WaitReports:
    """Reports of all namespaces; `served` tells whether the cluster knows of such objects."""

    def __init__(self, api: Api, source: WaitSource, metrics: Metrics) -> None:
        self.served = True
        self._api = api
        self._source = source
        self._metrics = metrics
        self._parts: dict[Place, Part] = {}
        self._counts: dict[str, int] = {}

    async def run(self) -> None:
        while True:
            try:
                await self._take_stock()
                while True:
                    await self._tell_all()
                    await asyncio.sleep(LOOK_SECONDS)
            except (NotFound, Forbidden) as error:
                self._not_served(error)
                await asyncio.sleep(ASK_AGAIN_SECONDS)
            except ApiError as error:
                log.warning("waits_not_told", error=str(error))
                await asyncio.sleep(max(error.retry_after_seconds, LOOK_SECONDS))

    async def _take_stock(self) -> None:
        """Reports that an earlier leader left are ours to write anew, or to take away."""
        found = await self._api.get(wait_reports_path(), {"resourceVersion": "0"})
        self.served = True
        for left in found.get("items") or ():
            namespace, told = left["metadata"]["namespace"], left.get("status") or {}
            if "part" in told and "parts" in told:
                self._parts.setdefault((namespace, told["part"]), Part())
                self._counts.setdefault(namespace, told["parts"])

    def _not_served(self, error: ApiError) -> None:
        if self.served:
            hint = "kubectl apply --server-side -f charts/weft/crds; reasons go into each status"
            log.warning("waits_not_served", error=str(error), hint=hint)
        self.served = False

    async def _tell_all(self) -> None:
        groups = self._groups()
        for place in [place for place in self._parts if place not in groups]:
            await self._remove(place)
        line = iter(self._due(groups))
        lanes = (self._tell_from(line, groups) for _ in range(LANES))
        done = await asyncio.gather(*lanes, return_exceptions=True)
        for error in filter(None, done):
            raise error

    async def _tell_from(self, line: Iterator[Place], groups: dict[Place, Group]) -> None:
        for place in line:
            written = await self._tell(place, groups[place])
            await asyncio.sleep(LANES * max(written, LEAST_BYTES) / BYTES_A_SECOND)

    def _groups(self) -> dict[Place, Group]:
        state = self._source.brain_state
        jobs, size = state.jobs, state.size
        waits = jobs.active[:size] & (jobs.state[:size] <= State.ADMITTED)
        by_namespace: dict[str, list[tuple[str, int]]] = {}
        for slot in np.flatnonzero(waits).tolist():
            key: str = state.spec(slot).id
            by_namespace.setdefault(key.partition("/")[0], []).append((key, slot))
        groups: dict[Place, Group] = {}
        for namespace, found in by_namespace.items():
            parts = self._counts[namespace] = parts_for(len(found), self._counts.get(namespace, 1))
            for part in range(parts):
                groups[namespace, part] = Group()
            for key, slot in found:
                group = groups[namespace, wait_part(key.partition("/")[2], parts)]
                group.keys.append(key)
                group.codes += (int(jobs.seq[slot]), int(jobs.state[slot]), int(jobs.reason[slot]))
        return groups

    def _due(self, groups: dict[Place, Group]) -> list[Place]:
        """Those of which something changed first, then by how long ago they were told."""
        now, found = self._source.now(), []
        waiting = sum(len(group.keys) for group in groups.values())
        spacing = changed_seconds(waiting)
        for place, group in groups.items():
            part = self._parts.setdefault(place, Part())
            changed = part.told != self._digest(place, group)
            if now - part.at >= (spacing if changed else NUMBERS_SECONDS):
                found.append((not changed, part.at, place))
        return [place for *_, place in sorted(found)]

    def _digest(self, place: Place, group: Group) -> int:
        return hash((self._counts[place[0]], tuple(group.codes)))

    async def _tell(self, place: Place, group: Group) -> int:
        """Write one part; how many bytes that were."""
        namespace, part = place
        now = self._source.now()
        told = {
            "at": stamp(now),
            "leader": self._source.leader,
            "part": part,
            "parts": self._counts[namespace],
            **self._content(group.keys),
        }
        body = report(namespace, part, told)
        path = wait_reports_path(namespace, part)
        self._parts[place] = Part(self._digest(place, group), now)
        try:
            await self._api.patch(path, body, kind=APPLY, params={"force": "true"})
        except (NotFound, Forbidden) as error:
            await self._refused(place, error)
        self._metrics.status_written()
        return len(body)

    async def _refused(self, place: Place, error: ApiError) -> None:
        """A namespace may be gone or going; if it is not that, nothing is served any more."""
        self._parts[place].told = None
        await self._api.get(wait_reports_path(), {"resourceVersion": "0", "limit": "1"})
        log.debug("namespace_not_told", namespace=place[0], error=str(error))

    def _content(self, keys: Iterable[str]) -> dict[str, Any]:
        source = self._source
        state, survey = source.brain_state, source.survey()
        queued: dict[str, list[int]] = {}
        admitted: dict[str, list[int]] = {}
        told = Sayings()
        for key in keys:
            slot = state.slot_of.get(JobId(key))
            standing = None if slot is None else state.state_of(slot)
            if standing is None or standing > State.ADMITTED:
                continue
            jobs = admitted if standing is State.ADMITTED else queued
            try:
                reasons = source.why_it_waits(survey, key, standing)
            except Exception as error:
                if not source.contain(key, error):
                    raise
                continue
            jobs[key.partition("/")[2]] = told.places(reasons)
        waiting = len(queued) + len(admitted)
        return {
            "waiting": waiting,
            "reasons": told.reasons,
            "queued": queued,
            "admitted": admitted,
        }

    async def _remove(self, place: Place) -> None:
        """Nobody waits there, or there are fewer parts now."""
        try:
            await self._api.delete(wait_reports_path(*place))
        except NotFound:
            log.debug("waits_gone", namespace=place[0], part=place[1])
        del self._parts[place]


class Sayings:
    """Reasons, each told once."""

    def __init__(self) -> None:
        self.reasons: list[dict[str, str]] = []
        self._place: dict[tuple[str, str], int] = {}

    def places(self, reasons: Sequence[Reason]) -> list[int]:
        return [self._place_of(reason) for reason in reasons]

    def _place_of(self, reason: Reason) -> int:
        code, text = reason.code.slug, counted(reason.text)[:MESSAGE_LIMIT]
        place = self._place.get((code, text))
        if place is None:
            place = self._place[code, text] = len(self.reasons)
            self.reasons.append({"code": code, "text": text, "remedy": possible(reason.remedy)})
        return place


def changed_seconds(waiting: int) -> float:
    """Between two writes of one part that changed: more where many wait, within limits."""
    return min(max(CHANGED_SECONDS, waiting / JOBS_A_SECOND), LATEST_CHANGED_SECONDS)


def parts_for(jobs: int, before: int) -> int:
    """How many parts a namespace has: twice as many when they are full, half when nearly empty.

    A power of two that follows the crowd with some slack, so that a job coming or going does not
    have all parts written anew.
    """
    parts = before
    while jobs > parts * JOBS_A_PART:
        parts *= 2
    while parts > 1 and jobs < parts * JOBS_A_PART // 8:
        parts //= 2
    return parts


def report(namespace: str, part: int, told: dict[str, Any]) -> bytes:
    """The object; one that would be too large tells only the first reason of each job."""
    about = {"name": wait_report_name(part), "namespace": namespace}
    thing = {"apiVersion": API_VERSION, "kind": WAIT_REPORT_KIND, "metadata": about, "status": told}
    body = orjson.dumps(thing)
    return body if len(body) <= MOST_BYTES else orjson.dumps({**thing, "status": shortened(told)})


def shortened(told: dict[str, Any]) -> dict[str, Any]:
    """The same with one reason for each job, and no more reasons than that."""
    lists = ("queued", "admitted")
    jobs = {name: {job: at[:1] for job, at in told[name].items()} for name in lists}
    used = sorted({place for of in jobs.values() for at in of.values() for place in at})
    moved = {place: number for number, place in enumerate(used)}
    renumbered = {
        name: {job: [moved[place] for place in at] for job, at in of.items()}
        for name, of in jobs.items()
    }
    return {**told, "reasons": [told["reasons"][place] for place in used], **renumbered}
