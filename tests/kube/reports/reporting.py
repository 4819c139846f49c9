"""A running endpoint for reports, workers who may use it, and others who may not.

The server is the one that the operator runs, reached over a Unix socket; the API server's word
comes from a stand-in, unless a test brings a real one.
"""

import asyncio
import base64
import json
import math
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp

from weft.kube.client.errors import Unavailable
from weft.kube.metrics import Metrics
from weft.kube.reports.headship import Headship
from weft.kube.reports.limits import USUAL, Limits
from weft.kube.reports.meeting import Head, Meetings
from weft.kube.reports.payload import MOST_METRICS, MOST_NUMBER, Report
from weft.kube.reports.refusal import Refusal
from weft.kube.reports.server import (
    HEALTH,
    METRICS,
    READY,
    Outlook,
    Probes,
    ReportServer,
    WorkerIdentity,
    report_path,
)
from weft.kube.reports.tokens import POD_NAME, POD_UID, REVIEWS, Tokens

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
NOWHERE = ("/", "/nothing", "/v1/jobs/lab/llama", "/v1/jobs", METRICS, "/debug/pprof")
Body = bytes | str | AsyncIterator[bytes] | None
FAR = 4_000_000_000
STEP = b'{"step": 3}'
PERCENT = b'{"trainerStatus": {"progressPercentage": 45}}'
KEY = "5e" * 32
MEETING = report_path("lab", "llama") + "/head"
HEAD = f'{{"epoch": 3, "address": "10.1.2.3:29400", "key": "{KEY}"}}'.encode()


def a_token(name: str, *, audience: object = ("weft",), expires: int = FAR) -> str:
    """Shaped like a service account's; only the stand-in below knows whether it is one."""
    claims = {"aud": list(audience) if isinstance(audience, tuple) else audience, "exp": expires}
    parts = (b'{"alg":"RS256"}', json.dumps({**claims, "jti": name}).encode(), name.encode())
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def vouched(namespace: str, pod: str, uid: str) -> dict[str, Any]:
    """What a real API server says of the token of a pod."""
    return {
        "authenticated": True,
        "audiences": ["weft"],
        "user": {
            "username": f"system:serviceaccount:{namespace}:default",
            "extra": {POD_NAME: [pod], POD_UID: [uid]},
        },
    }


@dataclass
class Vouching:
    """Stands in for the API server: vouches for the tokens it was given."""

    words: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    fails: bool = False
    wait: Callable[[], Awaitable[None]] | None = None

    async def create(self, path: str, body: Mapping[str, Any], /) -> dict[str, Any]:
        assert path == REVIEWS
        assert body["spec"]["audiences"] == ["weft"]
        token = body["spec"]["token"]
        self.asked.append(token)
        if self.wait is not None:
            await self.wait()
        if self.fails:
            raise Unavailable("no connection")
        return {"status": self.words.get(token, {"authenticated": False, "error": "no"})}


@dataclass
class Workers:
    """A directory: pods by uid, and the epochs of jobs."""

    pods: dict[tuple[str, str, str], WorkerIdentity] = field(default_factory=dict)
    epochs: dict[tuple[str, str], int] = field(default_factory=dict)
    seen: Outlook = field(default_factory=Outlook)
    heads: dict[str, Headship] = field(default_factory=dict)  # on record, by job
    fails: bool = False  # to put anything on record

    def pod(self, namespace: str, pod_name: str, pod_uid: str) -> WorkerIdentity | None:
        found = self.pods.get((namespace, pod_name, pod_uid))
        return found and replace(found, head=self.headship(namespace, found.job).seat)

    def epoch_of(self, namespace: str, job: str) -> int | None:
        return self.epochs.get((namespace, job))

    def headship(self, namespace: str, job: str) -> Headship:
        return self.heads.get(job, Headship())

    async def put_on_record(self, worker: WorkerIdentity, headship: Headship) -> None:
        await asyncio.sleep(0)  # somebody else may speak meanwhile
        if self.fails:
            raise Refusal(503, "not on record", hint="Ask again.")
        self.heads[worker.job] = headship

    def outlook(self, namespace: str, job: str) -> Outlook:
        return self.seen


LLAMA = WorkerIdentity("lab", "llama", 3, 0)
FOLLOWER = WorkerIdentity("lab", "llama", 3, 7)
TOKENS = {
    "right": a_token("right"),
    "follower": a_token("follower"),
    "other job": a_token("other-job"),
    "other namespace": a_token("other-namespace"),
    "old epoch": a_token("old-epoch"),
    "no worker": a_token("no-worker"),
    "not vouched for": a_token("not-vouched-for"),
    "other audience": a_token("other-audience", audience=("https://kubernetes.default.svc",)),
    "garbage": "garbage",
}


@dataclass
class Answer:
    """A response, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.body)
        return read


@dataclass
class Scene:
    """A running endpoint, and everything around it that a test may change."""

    folder: Path
    vouching: Vouching = field(default_factory=Vouching)
    workers: Workers = field(default_factory=Workers)
    metrics: Metrics = field(default_factory=Metrics)
    heard: list[tuple[WorkerIdentity, Report]] = field(default_factory=list)
    meetings: Meetings = field(default_factory=Meetings)
    leading: bool = True
    ready: bool = True
    now: float = 0.0
    door: aiohttp.ClientSession | None = None
    url: str = "http://weft"

    async def call(
        self,
        method: str,
        path: str,
        token: str | None = None,
        body: Body = None,
        **headers: str,
    ) -> Answer:
        assert self.door is not None
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent.setdefault("Authorization", f"Bearer {token}")
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        async with self.door.request(
            method, f"{self.url}{path}", data=body, headers=sent, skip_auto_headers=("User-Agent",)
        ) as response:
            return Answer(response.status, response.headers, await response.read())

    def meet(self) -> None:
        """The head has said where it is."""
        self.meetings.say("lab/llama/", Head(3, "10.1.2.3:29400", KEY))

    async def report(
        self, token: str = TOKENS["right"], body: Body = STEP, **headers: str
    ) -> Answer:
        return await self.call("POST", report_path("lab", "llama"), token, body, **headers)

    def counted(self, series: str) -> float:
        lines = self.metrics.exposition()[0].decode().splitlines()
        return float(next(line.rpartition(" ")[2] for line in lines if line.startswith(series)))


@asynccontextmanager
async def a_scene(limits: Limits = USUAL, *, metrics_door: bool = False) -> AsyncIterator[Scene]:
    """A worker of lab/llama in its present epoch, and workers who should not speak for it."""
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(Path(folder))
        for name, job, namespace, epoch, seat in (
            ("right", "llama", "lab", 3, 0),
            ("follower", "llama", "lab", 3, 7),
            ("other job", "vit", "lab", 1, 0),
            ("other namespace", "llama", "prod", 1, 0),
            ("old epoch", "llama", "lab", 2, 0),
        ):
            pod = f"{job}-{epoch}-{seat}"
            uid = name.replace(" ", "-")
            scene.vouching.words[TOKENS[name]] = vouched(namespace, pod, uid)
            scene.workers.pods[namespace, pod, uid] = WorkerIdentity(namespace, job, epoch, seat)
            scene.workers.epochs[namespace, job] = max(epoch, 3 if namespace == "lab" else 1)
        scene.workers.epochs["lab", "vit"] = 1
        scene.vouching.words[TOKENS["no worker"]] = vouched("lab", "notebook", "u")
        tokens = Tokens(
            scene.vouching, reviewed=scene.metrics.token_reviewed, clock=lambda: scene.now
        )
        server = ReportServer(
            tokens,
            scene.workers,
            lambda identity, report: scene.heard.append((identity, report)),
            lambda: scene.leading,
            metrics=scene.metrics,
            probes=Probes(ready=lambda: scene.ready),
            limits=limits,
        )
        scene.meetings = server.meetings
        await server.start(workers=scene.folder / "workers", metrics=scene.folder / "metrics")
        path = scene.folder / ("metrics" if metrics_door else "workers")
        try:
            async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as door:
                scene.door = door
                yield scene
        finally:
            await server.stop()


def routes_of(server: ReportServer) -> list[tuple[str, str]]:
    """Every method and path that the workers' application knows."""
    return [
        (route.method, route.resource.canonical)
        for route in server.workers_app().router.routes()
        if route.resource is not None
    ]


def a_server() -> ReportServer:
    return ReportServer(
        Tokens(Vouching()), Workers(), lambda *_: None, lambda: True, metrics=Metrics()
    )


def expected(credential: str, method: str, path: str) -> int:
    """What each may get: written from the rules, not from the code."""
    if method == "GET" and path in (HEALTH, READY):
        return 200
    if credential in ("none", "empty", "basic", "garbage", "other audience", "not vouched for"):
        return 401
    known = {template.format(namespace="lab", name="llama") for _, template in ALL_ROUTES}
    if path not in known:
        return 404
    meeting = path == MEETING
    if path in (HEALTH, READY) or method not in (("GET", "POST") if meeting else ("POST",)):
        return 405
    if meeting and credential == "follower":
        return 403 if method == "POST" else 200
    return {"right": 200, "follower": 200, "old epoch": 409}.get(credential, 403)


def body_for(path: str) -> bytes:
    """What its owner would send there."""
    if path.endswith("/head"):
        return HEAD
    return PERCENT if "kubeflow" in path else STEP


ALL_ROUTES = routes_of(a_server())


def authorization(credential: str) -> str:
    return {"empty": "Bearer ", "basic": "Basic d2VmdDp3ZWZ0"}.get(
        credential, f"Bearer {TOKENS.get(credential)}"
    )


def coded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def is_sound(report: Report) -> bool:
    numbers = [report.done, report.total, report.saved, report.remaining_seconds]
    numbers += [*report.metrics.values(), *report.stage_seconds.values(), report.paused_seconds]
    if report.speed is not None:
        numbers += [report.speed.steps_per_second, report.speed.seconds]
    bounded = all(
        number is None or (math.isfinite(number) and abs(number) <= MOST_NUMBER)
        for number in numbers
    )
    return bounded and len(report.metrics) <= MOST_METRICS and report.message.isprintable()
