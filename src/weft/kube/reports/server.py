"""The operator's door for workers: they report how their training goes, and find their head.

Nobody is heard without a token, whatever the route and the method, except for two questions about
health. A token names a pod, the operator knows the pod's job, epoch and seat, and so a worker can
speak for its own job in its present epoch only. Metrics are served on a port of their own, which
a network policy keeps from workers.

Checks run from cheap to dear: shape of the token, leadership, the caller, the route, the job, the
rate, and only then the body.
"""

import asyncio
import ipaddress
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Final, Protocol

from aiohttp import web
from aiohttp.typedefs import Handler

from weft.kube.logs import Log
from weft.kube.metrics import Metrics
from weft.kube.names import HEAD_SEAT
from weft.kube.reports.answers import answer, refused
from weft.kube.reports.headship import Headship
from weft.kube.reports.limits import USUAL, Crowd, Limits, Rates
from weft.kube.reports.listener import Address, Connection, Listener, TlsFiles
from weft.kube.reports.meeting import Meetings, read_head
from weft.kube.reports.payload import MOST_BODY_BYTES, Report, read_kubeflow, read_weft
from weft.kube.reports.refusal import Refusal
from weft.kube.reports.tokens import Caller, Tokens, bearer

JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"
HEALTH: Final = "/healthz"
READY: Final = "/readyz"
METRICS: Final = "/metrics"
RETRY_SECONDS: Final = 2.0
OK: Final = 200
NOT_FOUND: Final = 404

log = Log("reports")


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """Whose worker a pod is; `owner` is the uid of its job, and `head` the seat that leads it."""

    namespace: str
    job: str
    epoch: int
    seat: int
    owner: str = ""
    head: int = HEAD_SEAT

    @property
    def is_head(self) -> bool:
        """Whether it speaks for its job."""
        return self.seat == self.head


class Directory(Protocol):
    """What the operator knows of pods and jobs."""

    def pod(self, namespace: str, pod_name: str, pod_uid: str) -> WorkerIdentity | None:
        """The worker that this very pod is, or None."""
        ...

    def epoch_of(self, namespace: str, job: str) -> int | None:
        """The job's present epoch, or None where there is no such job."""
        ...

    def headship(self, namespace: str, job: str) -> Headship:
        """Who leads the workers of that job, as it is on record."""
        ...

    async def put_on_record(self, worker: WorkerIdentity, headship: Headship) -> None:
        """Who leads from now on, or a `Refusal`."""
        ...

    def outlook(self, namespace: str, job: str) -> "Outlook":
        """What its head should know before it has another one lead."""
        ...


@dataclass(frozen=True, slots=True)
class ToldOrder:
    """A plan for the head to go to, on so many GPUs, without those of some seats."""

    serial: int
    plan: str
    width: int
    leaving: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is about to happen to a job: seats that go, or sit where none should; or its end.

    Or another plan: where there may be `orders` to go to one, the head is told so also while there
    is none, and tells in turn what its program offers.
    """

    closed: tuple[int, ...] = ()
    stopping: bool = False
    orders: bool = False
    order: ToldOrder | None = None

    @property
    def answer(self) -> dict[str, object]:
        told = {"closed": self.closed, "stopping": self.stopping}
        if not self.orders:
            return told
        return told | {"order": None if self.order is None else asdict(self.order)}


Sink = Callable[[WorkerIdentity, Report], None]


@dataclass(frozen=True, slots=True)
class ReportRoute:
    """Where reports of one shape are sent."""

    path: str
    read: Callable[[bytes], Report]
    media_types: frozenset[str]


WEFT_ROUTE: Final = ReportRoute("/v1/jobs/{namespace}/{name}/report", read_weft, frozenset({JSON}))
KUBEFLOW_ROUTE: Final = ReportRoute(
    "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{namespace}/trainjobs/{name}/status",
    read_kubeflow,
    # Kubeflow's own example posts with urllib, which names this type where none is given.
    frozenset({JSON, FORM}),
)
ROUTES: Final = (WEFT_ROUTE, KUBEFLOW_ROUTE)
MEETING: Final = f"{WEFT_ROUTE.path}/head"
JSON_ONLY: Final = frozenset({JSON})


def report_path(namespace: str, job: str) -> str:
    """Where a worker of this job sends reports in Weft's shape."""
    return WEFT_ROUTE.path.format(namespace=namespace, name=job)


def kubeflow_path(namespace: str, job: str) -> str:
    """Where a worker of this job sends reports in Kubeflow's shape."""
    return KUBEFLOW_ROUTE.path.format(namespace=namespace, name=job)


@dataclass(frozen=True, slots=True)
class Probes:
    """What the kubelet asks: whether to send anybody here, and whether to let the process be."""

    ready: Callable[[], bool] = lambda: True
    healthy: Callable[[], bool] = lambda: True


ALWAYS: Final = Probes()


class ReportServer:
    """Serves workers at one address and metrics at another."""

    def __init__(
        self,
        tokens: Tokens,
        directory: Directory,
        sink: Sink,
        leading: Callable[[], bool],
        *,
        metrics: Metrics,
        probes: Probes = ALWAYS,
        limits: Limits = USUAL,
    ) -> None:
        self.meetings = Meetings()
        self._tokens = tokens
        self._directory = directory
        self._sink = sink
        self._leading = leading
        self._metrics = metrics
        self._probes = probes
        self._limits = limits
        self._reports = Rates(limits.reports_per_second, limits.reports_at_once)
        self._strangers = Rates(limits.refused_per_second, limits.refused_at_once)
        self._everybody = Crowd(limits.concurrent)
        self._tenants = Crowd(limits.concurrent_per_namespace)
        self._listeners: list[Listener] = []

    async def start(
        self, *, workers: Address | None, metrics: Address | None, tls: TlsFiles | None = None
    ) -> tuple[Listener, Listener]:
        """Listen for workers and for scrapers, where an address is given; `tls` is for workers."""
        doors = (
            Listener(self.workers_app(), self._limits),
            Listener(self.metrics_app(), self._limits),
        )
        for door, address, files in zip(doors, (workers, metrics), (tls, None), strict=True):
            if address is not None:
                self._listeners.append(door)
                await door.start(address, files)
        return doors

    async def stop(self) -> None:
        while self._listeners:
            await self._listeners.pop().stop()

    def workers_app(self) -> web.Application:
        """What workers may reach."""
        app = web.Application(middlewares=[self._answered, self._guarded])
        for route in ROUTES:
            app.router.add_post(route.path, partial(self._report, route))
        app.router.add_post(MEETING, self._say_where)
        app.router.add_get(MEETING, self._ask_where, allow_head=False)
        return self._with_health(app)

    def metrics_app(self) -> web.Application:
        """What only scrapers and probes may reach."""
        app = web.Application(middlewares=[self._answered])
        app.router.add_get(METRICS, self._measured, allow_head=False)
        return self._with_health(app)

    def _with_health(self, app: web.Application) -> web.Application:
        app.router.add_get(HEALTH, self._healthy, allow_head=False)
        app.router.add_get(READY, self._is_ready, allow_head=False)
        app.on_response_prepare.append(_hide_the_software)
        return app

    @web.middleware
    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Every refusal and every failure becomes JSON, and is counted."""
        response: web.StreamResponse
        try:
            self._check_host(request)
            response = await handler(request)
        except Refusal as refusal:
            log.debug("report_refused", status=refusal.status, why=refusal, path=request.path)
            response = refused(refusal)
        except web.HTTPException as error:
            response = _routing(error)
        except Exception as error:
            log.error("report_failed", trace=error, path=request.path)
            response = refused(Refusal(500, "the operator failed", hint="See its log."))
        if isinstance(request.protocol, Connection) and request.protocol.crowded:
            response.force_close()
        if _is_report(request, response):
            self._metrics.report_answered(RESULTS.get(response.status, "invalid"))
        return response

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Nobody passes without a token that the API server vouches for."""
        if request.method == "GET" and request.path in (HEALTH, READY):
            return await handler(request)
        with self._everybody.one_more():
            token = bearer(request.headers.get("Authorization"))
            known = self._tokens.remembered(token)
            self._check_leading()
            caller = known or await self._introduced(token, request.remote or "")
            _caller.set(caller)
            if isinstance(request.protocol, Connection):
                request.protocol.is_of(caller.namespace)
            return await handler(request)

    async def _introduced(self, token: str, peer: str) -> Caller:
        """An unknown token costs a call to the API server: each peer may bring few bad ones."""
        self._strangers.take(peer)
        caller = await self._tokens.caller(token)
        self._strangers.give_back(peer)
        return caller

    async def _report(self, route: ReportRoute, request: web.Request) -> web.Response:
        identity = self._identity(_caller.get(), request.match_info)
        # The head is the one that usually reports: the others do not use up its share.
        self._reports.take((identity.namespace, identity.job, identity.is_head))
        with self._tenants.one_more(identity.namespace):
            report = route.read(await self._body(request, route.media_types))
        # Reading took its time: look again whether it still may be heard.
        self._check_leading()
        self._sink(self._identity(_caller.get(), request.match_info), report)
        return answer({"accepted": True, "left_out": report.left_out})

    async def _say_where(self, request: web.Request) -> web.Response:
        """The head of a job tells where it listens, or another seat claims to lead.

        It hears which seats are about to go: nobody should lead from there.
        """
        identity = self._identity(_caller.get(), request.match_info)
        self._reports.take((identity.namespace, identity.job, MEETING, identity.seat))
        with self._tenants.one_more(identity.namespace):
            body = await self._body(request, JSON_ONLY)
        async with self.meetings.turn(_meeting_of(identity)):
            self._check_leading()
            headship = await self._led(self._identity(_caller.get(), request.match_info), body)
        outlook = self._directory.outlook(identity.namespace, identity.job)
        led = {"term": headship.term, "lost": headship.lost}
        return answer({"accepted": True, **led, **outlook.answer})

    async def _led(self, present: WorkerIdentity, body: bytes) -> Headship:
        """What holds is on record before anybody is told."""
        said = read_head(body, epoch=present.epoch, seat=present.seat)
        known = self._directory.headship(present.namespace, present.job)
        headship = known.followed_by(said.headship)
        if headship != known:
            await self._directory.put_on_record(present, headship)
            self._check_leading()
        self.meetings.say(_meeting_of(present), replace(said, headship=headship))
        return headship

    async def _ask_where(self, request: web.Request) -> web.Response:
        """A worker of the same job and epoch asks for its head."""
        identity = self._identity(_caller.get(), request.match_info)
        self._reports.take((identity.namespace, identity.job, MEETING, identity.seat))
        return answer(self.meetings.head(_meeting_of(identity), identity.epoch).answer)

    def _identity(self, caller: Caller, named: Mapping[str, str]) -> WorkerIdentity:
        found = self._directory.pod(caller.namespace, caller.pod, caller.pod_uid)
        if found is None:
            raise Refusal(
                403, "this pod is no worker of a job", hint="Only pods that Weft made may report."
            )
        if (found.namespace, found.job) != (named["namespace"], named["name"]):
            raise Refusal(
                403,
                "a worker may report on its own job only",
                hint="Use $WEFT_REPORT_URL as it is.",
            )
        present = self._directory.epoch_of(found.namespace, found.job)
        if present is None:
            raise Refusal(403, "this job is no more", hint="End this worker.")
        if found.epoch != present:
            raise Refusal(
                409,
                f"this worker is of epoch {found.epoch}, and its job is in epoch {present}",
                hint="End this worker: its job has been placed anew.",
            )
        return found

    async def _body(self, request: web.Request, media_types: frozenset[str]) -> bytes:
        if request.content_type not in media_types:
            raise Refusal(415, "the body has to be JSON", hint=f"Send 'Content-Type: {JSON}'.")
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise Refusal(415, "the body must not be compressed", hint="Send it as it is.")
        if (request.content_length or 0) > MOST_BODY_BYTES:
            raise _too_large()
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                return await _read(request)
        except TimeoutError as error:
            raise Refusal(
                408,
                f"the body did not come within {self._limits.body_seconds:g} s",
                hint="Send it at once.",
            ) from error
        except (ConnectionError, web.RequestPayloadError) as error:
            raise Refusal(400, "the body is incomplete", hint="Send all of it.") from error

    def _check_leading(self) -> None:
        if not self._leading():
            raise Refusal(
                503,
                "this replica does not lead",
                hint="Try again: another one leads, or soon will.",
                retry_after_seconds=RETRY_SECONDS,
            )

    def _check_host(self, request: web.Request) -> None:
        """A page in somebody's browser cannot reach us by a name of its own."""
        hosts = self._limits.hosts
        name = _host(request.headers.get("Host", ""))
        if hosts is not None and name not in hosts and not _is_address(name):
            raise Refusal(421, "not known by this name", hint="Use the address that Weft gave.")

    async def _healthy(self, request: web.Request) -> web.Response:
        healthy = self._probes.healthy()
        return answer({"healthy": healthy}, status=OK if healthy else 503)

    async def _is_ready(self, request: web.Request) -> web.Response:
        ready = self._probes.ready()
        return answer({"ready": ready}, status=OK if ready else 503)

    async def _measured(self, request: web.Request) -> web.Response:
        body, media_type = self._metrics.exposition()
        return web.Response(body=body, headers={"Content-Type": media_type})


# Each request is served in a context of its own.
_caller: ContextVar[Caller] = ContextVar("caller")
RESULTS: Final[Mapping[int, str]] = {
    200: "accepted",
    401: "unauthenticated",
    403: "forbidden",
    409: "stale",
    429: "limited",
    500: "failed",
    503: "unavailable",
}


def _is_report(request: web.Request, response: web.StreamResponse) -> bool:
    """Whether it counts as one: a worker that meets its head, or has to ask again, says nothing."""
    if request.path in (HEALTH, READY, METRICS):
        return False
    found = request.match_info.route.resource
    met = found is not None and found.canonical == MEETING
    return not (met and response.status in (OK, NOT_FOUND))


def _meeting_of(identity: WorkerIdentity) -> str:
    """Which job it is: another one may come to have the same name."""
    return f"{identity.namespace}/{identity.job}/{identity.owner}"


def _routing(error: web.HTTPException) -> web.Response:
    known = {404: "there is nothing here", 405: "not by this method"}
    response = refused(
        Refusal(
            error.status,
            known.get(error.status, error.reason),
            hint="Workers report by POST to $WEFT_REPORT_URL.",
        )
    )
    if "Allow" in error.headers:
        response.headers["Allow"] = error.headers["Allow"]
    return response


async def _read(request: web.Request) -> bytes:
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > MOST_BODY_BYTES:
            raise _too_large()
    return bytes(body)


def _too_large() -> Refusal:
    return Refusal(
        413,
        f"the body has more than {MOST_BODY_BYTES} bytes",
        hint="A report is a few numbers: leave the rest to logs.",
    )


def _host(header: str) -> str:
    """The name in a `Host` header, without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _hide_the_software(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "weft"
