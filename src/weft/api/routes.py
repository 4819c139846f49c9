"""The addresses: each asks the backend one question and sends what it answers.

Everybody may read the list: names, states, GPUs. What a job is told about in words (its message)
may quote its files and its output, and goes to those only who may open it.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from weft import __version__
from weft.api.answers import viewed
from weft.api.asked import (
    Asked,
    Cancelling,
    Everyone,
    Listing,
    Looking,
    NamePart,
    Reading,
    Stopping,
    Submission,
    asker,
    key_for,
    own_job,
)
from weft.api.backend import Backend, Identity, JobKey
from weft.api.errors import Forbidden
from weft.api.streams import NDJSON, SSE, Streams
from weft.spec.job_file import JobSpec
from weft.spec.reading import validated
from weft.view.failures import FailureLine, FailurePage
from weft.view.health import Verdict
from weft.view.jobs import JobDetail, JobLine, JobPage, JobPicture, Standing
from weft.view.node_page import NodePage
from weft.view.queues import QueueLine
from weft.view.use import Use

Who = Annotated[Identity, Depends(asker)]
Own = Annotated[JobKey, Depends(own_job)]
Nothing = Annotated[Asked, Query()]

FOR_GOOD: Final = Cancelling()
GENTLY: Final = Stopping()
# Who may ask, told in the schema: whoever is known, the job's owner, or nobody but administrators,
# who may do all the others too.
EVERYBODY, OWNER, ADMINISTRATOR = "everybody", "owner", "administrator"
LOG_ANSWER: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {NDJSON: {}}}}
EVENT_ANSWER: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {SSE: {}}}}


def routes_to(backend: Backend, streams: Streams) -> APIRouter:
    """All addresses of the API, answered by that backend."""
    router = APIRouter()
    _job_list(router, backend)
    _one_job(router, backend)
    _streams(router, backend, streams)
    _world(router, backend)
    return router


def _job_list(router: APIRouter, backend: Backend) -> None:
    @router.get("/v1/jobs", tags=[EVERYBODY], response_model=JobPage)
    async def jobs(who: Who, asked: Annotated[Listing, Query()]) -> Response:
        """The list of jobs: one's own, another owner's, or everybody's."""
        page = await backend.jobs(who, asked.selection(who))
        return viewed(replace(page, jobs=tuple(seen_by(who, line) for line in page.jobs)))

    @router.post("/v1/jobs", tags=[EVERYBODY], status_code=201, response_model=JobDetail)
    async def submit(who: Who, asked: Submission, _: Nothing) -> Response:
        """Take a job in, owned by who asks; 201, or 200 for a dry run."""
        checked = validated(JobSpec, asked.spec, name=asked.name)
        spec = checked.model_dump(mode="json", exclude_unset=True)
        made = await backend.submit(
            who, spec, asked.name, origin=asked.origin.origin, dry_run=asked.dry_run
        )
        return viewed(made, 200 if asked.dry_run else 201)


def _one_job(router: APIRouter, backend: Backend) -> None:
    @router.get("/v1/jobs/{name}", tags=[OWNER], response_model=JobPicture)
    async def job(who: Who, key: Own) -> Response:
        """One job in full, with its workers and its latest events."""
        return viewed(await backend.job(who, key))

    @router.get("/v1/jobs/{name}/why", tags=[OWNER], response_model=Standing)
    async def why(who: Who, key: Own) -> Response:
        """Why the job waits, and how its queue stands."""
        return viewed(await backend.why(who, key))

    @router.post("/v1/jobs/{name}/cancel", tags=[OWNER], response_model=JobLine)
    async def cancel(who: Who, key: Own, asked: Cancelling = FOR_GOOD) -> Response:
        """Ask for the end of the job; one that has ended is left as it is."""
        return viewed(await backend.cancel(who, key, dry_run=asked.dry_run))

    @router.post("/v1/jobs/{name}/retry", tags=[OWNER], response_model=JobLine)
    async def retry(who: Who, key: Own) -> Response:
        """Let a job that failed or was cancelled wait once more, from what it has saved."""
        return viewed(await backend.retry(who, key))


def _streams(router: APIRouter, backend: Backend, streams: Streams) -> None:
    @router.get("/v1/jobs/{name}/logs", tags=[OWNER], response_class=Response, responses=LOG_ANSWER)
    async def logs(who: Who, name: NamePart, asked: Annotated[Reading, Query()]) -> Response:
        """What the job's workers print, as NDJSON."""
        key = key_for(who, name, asked.owner)
        await backend.job(who, key)  # a job that is not there has a status of its own
        return streams.logs(backend.logs(who, key, asked.which, follow=asked.follow))

    @router.get(
        "/v1/jobs/{name}/changes", tags=[OWNER], response_class=Response, responses=EVENT_ANSWER
    )
    async def changes(who: Who, key: Own) -> Response:
        """The job now and after each change, as server-sent events; null once it is deleted."""
        return streams.events(await _begun(backend.changes(who, key)))

    @router.get("/v1/changes", tags=[EVERYBODY], response_class=Response, responses=EVENT_ANSWER)
    async def news(who: Who, _: Nothing) -> Response:
        """A number now and whenever something looks otherwise, as server-sent events."""
        return streams.events(await _begun(_numbered(backend.news(who))))


def _world(router: APIRouter, backend: Backend) -> None:
    @router.get("/v1/nodes", tags=[EVERYBODY], response_model=NodePage)
    async def nodes(who: Who, _: Nothing) -> Response:
        """The nodes and their GPUs."""
        return viewed(await backend.nodes(who))

    @router.get("/v1/failures", tags=[EVERYBODY], response_model=FailurePage)
    async def failures(who: Who, asked: Annotated[Looking, Query()]) -> Response:
        """Failed tries of jobs; of other people's without what their programs said."""
        page = await backend.failures(who, asked.owner_for(who), asked.days)
        seen = tuple(failure_seen_by(who, line) for line in page.failures)
        return viewed(replace(page, failures=seen))

    @router.get("/v1/queues", tags=[EVERYBODY], response_model=list[QueueLine])
    async def queues(who: Who, _: Nothing) -> Response:
        """The queues, and what is used of them."""
        return viewed(await backend.queues(who))

    @router.get("/v1/top", tags=[EVERYBODY], response_model=Use)
    async def top(who: Who, asked: Annotated[Everyone, Query()]) -> Response:
        """How full the world is, and what runs."""
        use = await backend.top(who, asked.owner_for(who))
        return viewed(replace(use, jobs=tuple(seen_by(who, line) for line in use.jobs)))

    @router.post("/v1/stop", tags=[ADMINISTRATOR], status_code=202)
    async def stop(who: Who, _: Nothing, asked: Stopping = GENTLY) -> Response:
        """Begin to stop the world."""
        if not who.admin:
            hint = "ask whoever started it, or root"
            raise Forbidden(f"{who.user} may not stop this world", hint=hint)
        await backend.stop(who, asked.jobs)
        return viewed({"jobs": asked.jobs}, 202)

    @router.get("/healthz", tags=[EVERYBODY])
    async def health(who: Who, _: Nothing) -> Response:
        """The diagnosis; an answer of any kind means that the server is up."""
        findings = await backend.health(who)
        ok = all(finding.verdict is not Verdict.FAIL for finding in findings)
        return viewed({"ok": ok, "version": __version__, "findings": findings})


def seen_by(who: Identity, line: JobLine) -> JobLine:
    """A line of the list as this person may see it."""
    return line if who.may_open(line.namespace) else replace(line, message=None)


def failure_seen_by(who: Identity, line: FailureLine) -> FailureLine:
    """The class of a failure is everybody's; what a program printed is its owner's."""
    if who.may_open(line.namespace):
        return line
    return replace(line, line="", did="", log="")


async def _begun(items: AsyncIterator[object]) -> AsyncIterator[object]:
    """The same items, the first of them made already: until then an error has its own status."""
    first = await anext(items)
    return _continued(first, items)


async def _continued(first: object, items: AsyncIterator[object]) -> AsyncIterator[object]:
    try:
        yield first
        async for item in items:
            yield item
    finally:
        await _close(items)


async def _numbered(numbers: AsyncIterator[int]) -> AsyncIterator[object]:
    try:
        async for number in numbers:
            yield {"version": number}
    finally:
        await _close(numbers)


async def _close(items: AsyncIterator[object]) -> None:
    if isinstance(items, AsyncGenerator):
        await items.aclose()
