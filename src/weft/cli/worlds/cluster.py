"""A cluster, read and written over the user's own kubeconfig.

Packages that only clusters need are loaded when one is connected, and whoever lacks them is told
how to get them.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.api.backend import JobKey, Selection
from weft.cli.terminal.screen import say
from weft.cli.worlds.world import Emit
from weft.model.errors import SpecError, WeftError
from weft.view.failures import FailurePage
from weft.view.health import Finding
from weft.view.jobs import JobDetail, JobLine, JobPage, JobPicture, Standing
from weft.view.logs import LogLine, Which
from weft.view.node_page import NodePage
from weft.view.queues import QueueLine
from weft.view.use import Use

if TYPE_CHECKING:
    from weft.kube.client.api import Api

WAITS_SECONDS = 5.0  # how often reasons are read again by whoever looks on
EXTRA = frozenset({"aiohttp", "kubernetes_asyncio", "prometheus_client", "yarl"})


@dataclass(frozen=True, slots=True)
class ClusterWorld:
    """A cluster that is connected, and the namespace that is meant."""

    api: "Api"
    namespace: str
    kubeconfig: str | None = None
    context: str | None = None
    whose: str = "namespace"

    @property
    def title(self) -> str:
        named = f"cluster {self.api.context}" if self.api.context else "cluster"
        return f"{named} · namespace {self.namespace}"

    def document(self, spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        from weft.kube.wishes import training_job

        return training_job(spec, namespace=self.namespace, name=name)

    async def submit(self, spec: Mapping[str, Any], name: str, *, dry_run: bool) -> JobDetail:
        from weft.kube.reading.jobs import job_detail
        from weft.kube.wishes import submit, training_job

        job = training_job(spec, namespace=self.namespace, name=name)
        return job_detail(await submit(self.api, job, dry_run=dry_run))

    async def jobs(self, wanted: Selection) -> JobPage:
        from weft.kube.reading.jobs import list_jobs

        return await list_jobs(
            self.api, wanted.owner, states=wanted.states, queue=wanted.queue, most=wanted.most
        )

    async def watch_jobs(self, wanted: Selection) -> AsyncGenerator[JobPage, None]:
        from weft.kube.client.cache import Cache
        from weft.kube.names import jobs_path
        from weft.kube.reading.following import kept_up
        from weft.kube.reading.jobs import asked_for, fitting, job_line
        from weft.kube.reading.paging import REMEMBERED
        from weft.kube.reading.waits import list_waits

        changed = asyncio.Event()
        jobs = Cache(
            self.api,
            jobs_path(wanted.owner),
            trim=job_line,
            params={**REMEMBERED, **asked_for(wanted.states, wanted.queue)},
            on_change=lambda *_: changed.set(),
        )
        await jobs.sync()
        async with kept_up(jobs):
            while True:
                changed.clear()
                waits = await list_waits(self.api, wanted.owner)
                yield JobPage(fitting(jobs.items.values(), waits, wanted.states), str(jobs.version))
                with suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), WAITS_SECONDS)

    async def job(self, key: JobKey) -> JobPicture:
        """All that the reader may see of it, asked for at once."""
        from weft.kube.reading.workers import list_events, list_workers

        detail, workers, events = await asyncio.gather(
            self.detail(key),
            list_workers(self.api, key.owner, key.name),
            list_events(self.api, key.owner, key.name),
        )
        return JobPicture(detail, workers, events)

    async def why(self, key: JobKey) -> Standing:
        from weft.kube.client.errors import Forbidden, NotFound
        from weft.kube.names import queues_path
        from weft.kube.reading.queues import queue_line

        detail = await self.detail(key)
        try:
            queue = await self.api.get(queues_path(detail.line.queue))
        except (Forbidden, NotFound):
            return Standing(detail)
        return Standing(detail, queue_line(queue))

    async def detail(self, key: JobKey) -> JobDetail:
        from weft.kube.reading.jobs import get_job

        return await get_job(self.api, key.owner, key.name)

    async def cancel(self, key: JobKey, *, dry_run: bool) -> JobLine:
        from weft.kube.reading.jobs import job_line
        from weft.kube.wishes import cancel

        return job_line(await cancel(self.api, key.owner, key.name, dry_run=dry_run))

    async def logs(self, key: JobKey, which: Which) -> AsyncGenerator[LogLine, None]:
        """What the pods of each rank's last placement say."""
        from weft.kube.reading.pod_logs import read_log
        from weft.kube.reading.workers import list_workers

        detail = await self.detail(key)
        found = await list_workers(self.api, key.owner, key.name, epoch=which.epoch)
        workers = which.latest(found)
        if not workers:
            raise _nothing_to_read(detail)
        for worker in workers:
            if not worker.started:
                say(f"rank {worker.rank} has not started: {worker.phase}")
                continue
            reading = read_log(self.api, key.owner, worker.pod, tail=which.tail)
            async with aclosing(reading) as lines:
                async for line in lines:
                    yield LogLine(worker.rank, worker.epoch, line, worker.node)

    async def follow_logs(self, key: JobKey, which: Which, emit: Emit) -> JobDetail | None:
        from weft.kube.reading.pod_logs import follow_job_logs

        return await follow_job_logs(
            self.api,
            key.owner,
            key.name,
            which,
            lambda worker, text: emit(LogLine(worker.rank, worker.epoch, text, worker.node)),
        )

    def changes(self, key: JobKey) -> AsyncGenerator[JobDetail | None, None]:
        from weft.kube.reading.jobs import follow_job

        return follow_job(self.api, key.owner, key.name)

    async def nodes(self) -> NodePage:
        from weft.kube.reading.node_reader import list_nodes

        return await list_nodes(self.api, self.namespace)

    async def failures(self, namespace: str | None, days: float) -> FailurePage:
        from weft.kube.reading.failures import list_failures

        return await list_failures(self.api, namespace, days)

    async def queues(self) -> tuple[QueueLine, ...]:
        from weft.kube.reading.queues import list_queues

        return await list_queues(self.api)

    async def visible_queues(self) -> tuple[QueueLine, ...] | None:
        from weft.kube.client.errors import Forbidden

        try:
            return await self.queues()
        except Forbidden:
            return None

    async def watch_queues(self) -> AsyncGenerator[tuple[QueueLine, ...], None]:
        from weft.kube.client.cache import Cache
        from weft.kube.names import queues_path
        from weft.kube.reading.following import kept_up
        from weft.kube.reading.queues import queue_line

        changed = asyncio.Event()
        lines = Cache(self.api, queues_path(), trim=queue_line, on_change=lambda *_: changed.set())
        await lines.sync()
        async with kept_up(lines):
            while True:
                changed.clear()
                yield tuple(lines.items.values())
                await changed.wait()

    async def retry(self, key: JobKey) -> JobLine:
        raise SpecError(
            f"{key} cannot be tried again: a TrainingJob that is over stays as it ended",
            hint="weft submit --name gives the job file another name",
        )

    async def top(self, namespace: str | None) -> Use:
        from weft.cli.worlds.board import Board

        return (await Board.of(self, namespace)).use()

    async def watch_top(self, namespace: str | None) -> AsyncGenerator[Use, None]:
        from weft.cli.worlds.board import Board

        board = await Board.of(self, namespace)
        async with board.kept_up():
            while True:
                board.changed.clear()
                yield board.use()
                await board.changed.wait()

    async def health(self, operator_namespace: str | None) -> tuple[Finding, ...]:
        from weft.kube.reading.clock import skew_seconds
        from weft.kube.reading.health import Patient, diagnose

        patient = Patient(
            api=self.api,
            namespace=self.namespace,
            operator_namespace=operator_namespace,
            skew_seconds=await skew_seconds(self.kubeconfig, self.context),
        )
        return await diagnose(patient)


async def connect(kubeconfig: str | None, context: str | None) -> "Api":
    """The API server that the options lead to."""
    with kube_extra():
        from weft.kube.client.api import Api
    return await Api.connect(kubeconfig=kubeconfig, context=context)


@contextmanager
def kube_extra() -> Iterator[None]:
    """Around imports of what only the extra `kube` installs: a missing package gets its hint."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in EXTRA:
            raise
        raise WeftError(
            f"this needs a package that is not installed: {missing.name}",
            hint="in Weft's checkout: pip install '.[kube]'",
        ) from None


def _nothing_to_read(detail: JobDetail) -> SpecError:
    line = detail.line
    if line.finished:
        return SpecError(
            f"the pods of '{line.name}' are gone", hint="keep_on_failure in the job file keeps them"
        )
    if line.waiting:
        hint = f"weft why {line.name} tells why it waits; weft logs -f waits with you"
        return SpecError(f"'{line.name}' has no workers: it is {line.state or 'New'}", hint=hint)
    return SpecError(f"'{line.name}' has no such worker", hint=f"weft show {line.name} lists them")
