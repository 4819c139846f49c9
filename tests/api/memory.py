"""A world in memory that stands behind the API as a real one does; nothing runs in it.

Time stands at noon. Jobs change when a test says so, and whoever follows them hears of it.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from weft.api.backend import Farewell, Identity, JobKey, Origin, Selection
from weft.api.errors import NoSuchJob, Taken
from weft.model.errors import UnknownName
from weft.view.failures import FailurePage
from weft.view.health import Finding, Verdict
from weft.view.jobs import (
    JobDetail,
    JobLine,
    JobPage,
    JobPicture,
    ReasonLine,
    SeatLine,
    Standing,
    nearest,
)
from weft.view.logs import LogLine, Which
from weft.view.node_page import NodeLine, NodePage
from weft.view.queues import QueueLine
from weft.view.use import Use, widest_first
from weft.view.workers import EventLine, WorkerLine

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NODE = "bench"
BUSY = ReasonLine(
    "Capacity.Busy",
    "capacity",
    "1 of 4 suitable GPUs are free; this job needs 4.",
    "wait for running jobs to end, or ask for no more than is free (1)",
    "reasons.md#capacity-busy",
)


@dataclass
class MemoryWorld:
    """Jobs by their owner and name, what their workers printed, and one machine with four GPUs."""

    pictures: dict[JobKey, JobPicture] = field(default_factory=dict)
    printed: dict[JobKey, list[LogLine]] = field(default_factory=dict)
    origins: list[Origin] = field(default_factory=list)
    stopped: list[Farewell] = field(default_factory=list)
    asked: list[tuple[str, Identity]] = field(default_factory=list)
    following: int = 0
    version: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    fails: Exception | None = None

    async def submit(
        self, who: Identity, spec: Mapping[str, Any], name: str, *, origin: Origin, dry_run: bool
    ) -> JobDetail:
        self._note("submit", who)
        self.origins.append(origin)
        key = JobKey(who.user, name)
        if key in self.pictures:
            raise Taken(f"there is a job {key} already", hint="--name gives another name")
        if (queue := spec.get("queue", "default")) != "default":
            raise UnknownName(f"there is no queue '{queue}'", hint="there is default")
        detail = a_detail(key, spec=dict(spec), reasons=(BUSY,))
        if not dry_run:
            await self.put(JobPicture(detail))
        return detail

    async def jobs(self, who: Identity, wanted: Selection) -> JobPage:
        self._note("jobs", who)
        lines = [
            picture.detail.line
            for key, picture in self.pictures.items()
            if wanted.owner in (None, key.owner)
            and (not wanted.states or picture.detail.line.state in wanted.states)
            and wanted.queue in (None, picture.detail.line.queue)
        ]
        kept = lines[: wanted.most]
        return JobPage(tuple(kept), str(self.version), len(lines) - len(kept))

    async def job(self, who: Identity, job: JobKey) -> JobPicture:
        self._note("job", who)
        return self._found(job)

    async def why(self, who: Identity, job: JobKey) -> Standing:
        self._note("why", who)
        return Standing(self._found(job).detail, a_queue())

    async def cancel(self, who: Identity, job: JobKey, *, dry_run: bool) -> JobLine:
        self._note("cancel", who)
        picture = self._found(job)
        if dry_run or picture.detail.line.finished:
            return picture.detail.line
        await self.change(job, ending=True)
        return self._found(job).detail.line

    async def retry(self, who: Identity, job: JobKey) -> JobLine:
        self._note("retry", who)
        if self._found(job).detail.line.finished:
            await self.change(job, state="Queued", ended_at=None)
        return self._found(job).detail.line

    async def logs(
        self, who: Identity, job: JobKey, which: Which, *, follow: bool
    ) -> AsyncGenerator[LogLine, None]:
        self._note("logs", who)
        self.following += 1
        try:
            sent = 0
            while True:
                seen = self.version
                fresh = self.printed.get(job, [])[sent:]
                for line in fresh[-which.tail :] if which.tail and not sent else fresh:
                    if which.ranks is None or line.rank in which.ranks:
                        yield line
                sent += len(fresh)
                if not follow or job not in self.pictures or self._found(job).detail.line.finished:
                    return
                await self._turn(seen)
        finally:
            self.following -= 1

    async def changes(self, who: Identity, job: JobKey) -> AsyncGenerator[JobDetail | None, None]:
        self._note("changes", who)
        self._found(job)
        while job in self.pictures:
            seen = self.version
            yield self.pictures[job].detail
            await self._turn(seen)
        yield None

    async def news(self, who: Identity) -> AsyncGenerator[int, None]:
        self._note("news", who)
        self.following += 1
        try:
            while True:
                seen = self.version
                yield seen
                await self._turn(seen)
        finally:
            self.following -= 1

    async def nodes(self, who: Identity) -> NodePage:
        self._note("nodes", who)
        use = await self.top(who, None)
        held = tuple(f"{line.namespace}/{line.name}" for line in use.jobs)
        return NodePage((a_node(used=use.used_gpus, jobs=held),))

    async def failures(self, who: Identity, owner: str | None, days: float) -> FailurePage:
        self._note("failures", who)
        lines = (picture.detail.failure for picture in self.pictures.values())
        return FailurePage(tuple(one for one in lines if one and owner in (None, one.namespace)))

    async def queues(self, who: Identity) -> tuple[QueueLine, ...]:
        self._note("queues", who)
        return (a_queue(),)

    async def top(self, who: Identity, owner: str | None) -> Use:
        self._note("top", who)
        lines = [p.detail.line for p in self.pictures.values() if not p.detail.line.finished]
        mine = [line for line in lines if owner in (None, line.namespace)]
        holding = widest_first(mine)
        return Use(
            nodes=1,
            ready_nodes=1,
            gpus=4,
            ready_gpus=4,
            used_gpus=sum(line.gpus for line in holding),
            running=len(holding),
            waiting=len(mine) - len(holding),
            jobs=holding,
        )

    async def health(self, who: Identity) -> tuple[Finding, ...]:
        self._note("health", who)
        return (
            Finding("store", Verdict.OK, "12 kB in /var/lib/weft"),
            Finding("gpus", Verdict.WARN, "no GPUs: CPUs stand for them", "none is needed"),
        )

    async def stop(self, who: Identity, farewell: Farewell) -> None:
        self._note("stop", who)
        self.stopped.append(farewell)

    # What tests do to it.

    async def put(self, picture: JobPicture) -> None:
        line = picture.detail.line
        self.pictures[JobKey(line.namespace, line.name)] = picture
        await self._tell()

    async def change(self, job: JobKey, **fields: Any) -> None:
        picture = self.pictures[job]
        line = replace(picture.detail.line, version=self.version + 1, **fields)
        await self.put(replace(picture, detail=replace(picture.detail, line=line)))

    async def delete(self, job: JobKey) -> None:
        del self.pictures[job]
        await self._tell()

    async def print(self, job: JobKey, text: bytes, *, rank: int = 0, epoch: int = 1) -> None:
        self.printed.setdefault(job, []).append(LogLine(rank, epoch, text, NODE))
        await self._tell()

    async def _tell(self) -> None:
        async with self.changed:
            self.version += 1
            self.changed.notify_all()

    async def _turn(self, seen: int) -> None:
        """Until something has changed since then: a reader may have been away meanwhile."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.version != seen)

    def _found(self, job: JobKey) -> JobPicture:
        if job not in self.pictures:
            names = [key.name for key in self.pictures if key.owner == job.owner]
            hint = nearest(job.name, names, elsewhere="weft submit makes one")
            raise NoSuchJob(f"no job '{job.name}' of '{job.owner}'", hint=hint)
        return self.pictures[job]

    def _note(self, question: str, who: Identity) -> None:
        self.asked.append((question, who))
        if self.fails is not None:
            raise self.fails


def a_line(key: JobKey, **more: Any) -> JobLine:
    fields: dict[str, Any] = {
        "namespace": key.owner,
        "name": key.name,
        "uid": f"uid-of-{key.name}",
        "version": 1,
        "state": "Queued",
        "gpus": 0,
        "asked_gpus": "4",
        "queue": "default",
        "priority": 0,
        "progress": None,
        "remaining_seconds": None,
        "reason": BUSY.code,
        "message": BUSY.text,
        "nodes": (),
        "ending": False,
        "submitted_at": NOON - timedelta(minutes=12),
        "waiting_since": NOON - timedelta(minutes=12),
        "started_at": None,
        "ended_at": None,
    }
    return JobLine(**fields | more)


def a_detail(
    key: JobKey,
    *,
    spec: dict[str, Any] | None = None,
    reasons: tuple[ReasonLine, ...] = (),
    **more: Any,
) -> JobDetail:
    return JobDetail(
        line=a_line(key, **more),
        spec=spec or {"run": "python train.py", "resources": {"gpus": 4}},
        reasons=reasons,
        epoch=0,
        seats=(),
        work={},
        metrics={},
        past={},
        conditions=(),
    )


def a_waiting_job(key: JobKey) -> JobPicture:
    return JobPicture(a_detail(key, reasons=(BUSY,)))


def a_running_job(key: JobKey, **more: Any) -> JobPicture:
    started = NOON - timedelta(hours=1)
    running: dict[str, Any] = {
        "state": "Running",
        "gpus": 3,
        "asked_gpus": "1..4",
        "progress": "37%",
        "remaining_seconds": 600.0,
        "reason": None,
        "message": None,
        "nodes": (NODE,),
        "started_at": started,
    }
    detail = replace(
        a_detail(key, **running | more),
        epoch=1,
        seats=(SeatLine(NODE, 3, 3.0, 12.0),),
        work={"done": 370, "total": 1000, "unit": "steps"},
        metrics={"loss": 1.87},
        past={"attainedGpuSeconds": 10_800.0, "preemptions": 1},
    )
    return JobPicture(detail, (a_worker(key),), (an_event(),))


def a_failed_job(key: JobKey) -> JobPicture:
    told: Any = {"state": "Failed", "reason": None, "message": "Rank 0 ended with status 1."}
    return JobPicture(a_detail(key, **told, started_at=NOON, ended_at=NOON))


def a_worker(key: JobKey, rank: int = 0) -> WorkerLine:
    return WorkerLine(
        pod=f"{key.name}-1-{rank}",
        uid="4711",
        version=1,
        epoch=1,
        rank=rank,
        node=NODE,
        phase="Running",
        started=True,
        exit_code=None,
        message=None,
        created_at=NOON - timedelta(hours=1),
    )


def an_event() -> EventLine:
    at = NOON - timedelta(hours=1)
    return EventLine(at=at, reason="Started", message="It runs.", times=1, warning=False)


def a_node(*, used: int = 0, jobs: tuple[str, ...] = ()) -> NodeLine:
    return NodeLine(
        name=NODE,
        state="Ready",
        gpu_type="H100",
        gpu_memory_mib=81_920,
        gpus=4,
        used_gpus=used,
        foreign_gpus=0,
        rack=None,
        pool=None,
        cpus="16",
        memory="64Gi",
        jobs=jobs,
    )


def a_queue() -> QueueLine:
    return QueueLine(
        name="default",
        uid="",
        version=1,
        parent=None,
        guaranteed=4,
        limit=None,
        borrowing=True,
        weight=1.0,
        namespaces=(),
        recipe="weave",
        used=3,
        running=1,
        waiting=1,
        ready=True,
        message=None,
    )
