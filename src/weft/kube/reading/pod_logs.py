"""What a job's workers printed, read from their pods.

A followed log is taken up again where it broke: the server stamps each line with its time, and
what was already seen is left out, so that each line comes once. A job that is placed anew gets new
pods; following goes on in them, until the job itself has ended.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from weft.kube.client.errors import Invalid, NotFound, TooManyRequests, Unavailable
from weft.kube.names import EPOCH_LABEL, JOB_LABEL, PLACEHOLDER_LABEL, pods_path
from weft.kube.reading.jobs import follow_job
from weft.kube.reading.workers import worker_line
from weft.view.jobs import JobDetail
from weft.view.logs import Which
from weft.view.workers import WorkerLine

if TYPE_CHECKING:
    from weft.kube.client.api import Api

CONTAINER: Final = "worker"
AGAIN_SECONDS: Final = 1.0
DRAIN_SECONDS: Final = 10.0

Emit = Callable[[WorkerLine, bytes], None]


async def read_log(
    api: "Api", namespace: str, pod: str, *, tail: int | None = None
) -> AsyncGenerator[bytes, None]:
    """The lines that are there now."""
    params = {} if tail is None else {"tailLines": str(tail)}
    async with aclosing(_lines(api, namespace, pod, params)) as lines:
        async for line in lines:
            yield line


async def follow_job_logs(
    api: "Api", namespace: str, job: str, which: Which, emit: Emit
) -> JobDetail | None:
    """Hand on the lines of the job's workers until it has ended; the job then, None if deleted."""
    from weft.kube.client.cache import Cache

    epoch = "" if which.epoch is None else f",{EPOCH_LABEL}={which.epoch}"
    async with aclosing(follow_job(api, namespace, job)) as changes:
        first = await anext(changes)
        try:
            async with asyncio.TaskGroup() as group:
                tails = _Tails(api, namespace, which, emit, group, first.epoch if first else 0)
                pods = Cache(
                    api,
                    pods_path(namespace),
                    trim=worker_line,
                    params={"labelSelector": f"{JOB_LABEL}={job},!{PLACEHOLDER_LABEL}{epoch}"},
                    on_change=tails.changed,
                )
                await pods.sync()
                follower = group.create_task(pods.run())
                last = await _until_ended(first, changes, which)
                await pods.sync()
                await tails.drained()
                follower.cancel()
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
    return last


async def _until_ended(
    detail: JobDetail | None, changes: AsyncIterator[JobDetail | None], which: Which
) -> JobDetail | None:
    """The job once it is finished, deleted, or past the epoch that was asked for."""
    while detail is not None and not detail.line.finished:
        if which.epoch is not None and detail.epoch > which.epoch:
            return detail
        detail = await anext(changes)
    return detail


@dataclass(slots=True)
class _Tails:
    """One task per pod that is wanted and whose container has started."""

    api: "Api"
    namespace: str
    which: Which
    emit: Emit
    group: asyncio.TaskGroup
    present_epoch: int
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    workers: dict[str, WorkerLine] = field(default_factory=dict)
    seen: dict[str, bytes] = field(default_factory=dict)

    def changed(self, _key: str, old: WorkerLine | None, new: WorkerLine | None) -> None:
        if new is None:
            if old is not None:
                self.workers.pop(old.uid, None)
            return
        self.workers[new.uid] = new
        if new.uid in self.tasks or not new.started:
            return
        if self.which.wants(new, self.present_epoch):
            self.tasks[new.uid] = self.group.create_task(self._follow(new))

    async def drained(self) -> None:
        """All that the pods still have to say; a node that is lost never says that it is over."""
        if self.tasks:
            await asyncio.wait(self.tasks.values(), timeout=DRAIN_SECONDS)
        for task in self.tasks.values():
            task.cancel()

    async def _follow(self, worker: WorkerLine) -> None:
        while True:
            try:
                await self._pass_on(worker)
            except NotFound:
                return
            except (Invalid, Unavailable, TooManyRequests):
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            if self._over(worker):
                return
            await asyncio.sleep(AGAIN_SECONDS)

    async def _pass_on(self, worker: WorkerLine) -> None:
        """Lines that are later than the last one before this connection."""
        before = self.seen.get(worker.uid, b"")
        params = {"follow": "true", "timestamps": "true"}
        if before:
            params["sinceTime"] = before.decode()
        elif self.which.tail is not None:
            params["tailLines"] = str(self.which.tail)
        async with aclosing(_lines(self.api, self.namespace, worker.pod, params)) as lines:
            async for line in lines:
                stamp, _, text = line.partition(b" ")
                if stamp > before:
                    self.seen[worker.uid] = stamp
                    self.emit(worker, text)

    def _over(self, worker: WorkerLine) -> bool:
        now = self.workers.get(worker.uid)
        return now is None or now.exit_code is not None


async def _lines(
    api: "Api", namespace: str, pod: str, params: dict[str, str]
) -> AsyncGenerator[bytes, None]:
    """Whole lines without their ends; the last one may lack it."""
    path = f"{pods_path(namespace, pod)}/log"
    rest = b""
    async with aclosing(
        api.stream(path, {"container": CONTAINER, **params}, idle_seconds=None)
    ) as chunks:
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line
    if rest:
        yield rest
