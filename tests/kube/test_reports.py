"""Workers report on themselves, and nobody else gets in.

Most tests speak HTTP to the very server that the operator runs, over a Unix socket, with a stand-in
for the API server's word. Those marked `cluster` ask a real API server about real tokens.
"""

import asyncio
import base64
import itertools
import json
import math
import ssl
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kube.installed import install_chart
from tools.testcluster import ControlPlane
from weft.kube.client.api import Api
from weft.kube.client.errors import Unavailable
from weft.kube.metrics import Metrics
from weft.kube.reports.limits import USUAL, Crowd, Limits, Rates
from weft.kube.reports.listener import TlsFiles
from weft.kube.reports.payload import (
    MOST_BODY_BYTES,
    MOST_METRICS,
    MOST_NUMBER,
    KubeflowTrainerStatus,
    Report,
    StageTimes,
    Unit,
    WeftReport,
    read_kubeflow,
    read_weft,
)
from weft.kube.reports.refusal import Refusal
from weft.kube.reports.server import (
    HEALTH,
    METRICS,
    READY,
    ROUTES,
    ReportServer,
    WorkerIdentity,
    kubeflow_path,
    report_path,
)
from weft.kube.reports.tokens import POD_NAME, POD_UID, REVIEWS, Caller, Tokens, bearer

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
NOWHERE = ("/", "/nothing", "/v1/jobs/lab/llama", "/v1/jobs", METRICS, "/debug/pprof")
Body = bytes | str | AsyncIterator[bytes] | None
FAR = 4_000_000_000
STEP = b'{"step": 3}'
PERCENT = b'{"trainerStatus": {"progressPercentage": 45}}'


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

    def pod(self, namespace: str, pod_name: str, pod_uid: str) -> WorkerIdentity | None:
        return self.pods.get((namespace, pod_name, pod_uid))

    def epoch_of(self, namespace: str, job: str) -> int | None:
        return self.epochs.get((namespace, job))


LLAMA = WorkerIdentity("lab", "llama", 3, 0)
TOKENS = {
    "right": a_token("right"),
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
    leading: bool = True
    ready: bool = True
    now: float = 0.0
    door: aiohttp.ClientSession | None = None

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
            method, f"http://weft{path}", data=body, headers=sent, skip_auto_headers=("User-Agent",)
        ) as response:
            return Answer(response.status, response.headers, await response.read())

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
        for name, job, namespace, epoch in (
            ("right", "llama", "lab", 3),
            ("other job", "vit", "lab", 1),
            ("other namespace", "llama", "prod", 1),
            ("old epoch", "llama", "lab", 2),
        ):
            pod = f"{job}-{epoch}-0"
            uid = name.replace(" ", "-")
            scene.vouching.words[TOKENS[name]] = vouched(namespace, pod, uid)
            scene.workers.pods[namespace, pod, uid] = WorkerIdentity(namespace, job, epoch, 0)
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
            ready=lambda: scene.ready,
            limits=limits,
        )
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


# ------------------------------------------------------------------------------- who gets in


def expected(credential: str, method: str, path: str) -> int:
    """What each may get: written from the rules, not from the code."""
    if method == "GET" and path in (HEALTH, READY):
        return 200
    if credential in ("none", "empty", "basic", "garbage", "other audience", "not vouched for"):
        return 401
    known = {template.format(namespace="lab", name="llama") for _, template in ALL_ROUTES}
    if path not in known:
        return 404
    if path in (HEALTH, READY) or method != "POST":
        return 405
    return {"right": 200, "old epoch": 409}.get(credential, 403)


ALL_ROUTES = routes_of(a_server())


def test_the_route_table_is_what_is_documented() -> None:
    assert sorted(ALL_ROUTES) == sorted(
        [("POST", route.path) for route in ROUTES] + [("GET", HEALTH), ("GET", READY)]
    )


@pytest.mark.parametrize("credential", ["none", "empty", "basic", *TOKENS])
def test_every_route_by_every_method(credential: str) -> None:
    paths = {template.format(namespace="lab", name="llama") for _, template in ALL_ROUTES}

    async def walk() -> dict[tuple[str, str], tuple[int, int]]:
        found = {}
        async with a_scene(Limits(refused_at_once=1000)) as scene:
            for method, path in itertools.product(METHODS, sorted(paths | set(NOWHERE))):
                body = (PERCENT if "kubeflow" in path else STEP) if method == "POST" else None
                given = {"Authorization": authorization(credential)} if credential != "none" else {}
                got = await scene.call(method, path, None, body, **given)
                found[method, path] = (got.status, expected(credential, method, path))
                if got.body:
                    assert isinstance(got.json, dict)
                assert got.headers["Server"] == "weft"
            assert all(identity == LLAMA for identity, _ in scene.heard)
            assert len(scene.heard) == (2 if credential == "right" else 0)
        return found

    wrong = {route: got for route, got in asyncio.run(walk()).items() if got[0] != got[1]}
    assert wrong == {}


def authorization(credential: str) -> str:
    return {"empty": "Bearer ", "basic": "Basic d2VmdDp3ZWZ0"}.get(
        credential, f"Bearer {TOKENS.get(credential)}"
    )


@pytest.mark.parametrize(
    ("token", "path", "status"),
    [
        ("other job", report_path("lab", "vit"), 200),
        ("other namespace", report_path("prod", "llama"), 200),
        ("other namespace", report_path("lab", "llama"), 403),
        ("right", report_path("prod", "llama"), 403),
        ("right", report_path("lab", "vit"), 403),
        ("right", report_path("lab", "llama").replace("llama", "%6clama"), 200),
        ("right", report_path("lab", "llama%2f..%2fvit"), 403),
        ("right", report_path("lab", "..%2f..%2fprod%2fllama"), 403),
        ("right", report_path("LAB", "llama"), 403),
        ("right", kubeflow_path("lab", "vit"), 403),
    ],
)
def test_a_worker_speaks_for_its_own_job_only(token: str, path: str, status: int) -> None:
    async def ask() -> Answer:
        async with a_scene() as scene:
            return await scene.call("POST", path, TOKENS[token], STEP)

    assert asyncio.run(ask()).status == status


def test_an_old_epoch_is_told_to_end() -> None:
    async def ask() -> Answer:
        async with a_scene() as scene:
            return await scene.report(TOKENS["old epoch"])

    got = asyncio.run(ask())
    assert (got.status, got.json["error"]) == (
        409,
        "this worker is of epoch 2, and its job is in epoch 3",
    )
    assert "placed anew" in got.json["hint"]


def test_a_job_that_is_gone_hears_nobody() -> None:
    async def ask() -> Answer:
        async with a_scene() as scene:
            del scene.workers.epochs["lab", "llama"]
            return await scene.report()

    assert asyncio.run(ask()).status == 403


def test_a_known_token_of_a_pod_that_is_gone_is_refused() -> None:
    async def ask() -> list[int]:
        async with a_scene() as scene:
            before = (await scene.report()).status
            scene.workers.pods.clear()
            return [before, (await scene.report()).status]

    assert asyncio.run(ask()) == [200, 403]


def test_a_job_placed_anew_while_its_report_was_read() -> None:
    async def ask() -> tuple[Answer, int]:
        async with a_scene() as scene:

            async def slowly() -> AsyncIterator[bytes]:
                yield STEP[:4]
                scene.workers.epochs["lab", "llama"] = 4
                yield STEP[4:]

            return await scene.report(body=slowly()), len(scene.heard)

    got, heard = asyncio.run(ask())
    assert (got.status, heard) == (409, 0)


def test_a_replica_that_does_not_lead_sends_on() -> None:
    async def ask() -> list[Answer]:
        async with a_scene() as scene:
            scene.leading = False
            told = [await scene.report(), await scene.call("GET", READY), await scene.report("x")]
            assert scene.vouching.asked == []
            return told

    report, ready, garbage = asyncio.run(ask())
    assert (report.status, report.headers["Retry-After"]) == (503, "2")
    assert (ready.status, garbage.status) == (200, 401)


def test_readiness_is_the_operators() -> None:
    async def ask() -> int:
        async with a_scene() as scene:
            scene.ready = False
            return (await scene.call("GET", READY)).status

    assert asyncio.run(ask()) == 503


def test_metrics_have_a_door_of_their_own() -> None:
    async def ask(metrics_door: bool) -> dict[str, int]:
        async with a_scene(metrics_door=metrics_door) as scene:
            paths = (METRICS, HEALTH, READY, report_path("lab", "llama"))
            return {path: (await scene.call("GET", path)).status for path in paths}

    assert list(asyncio.run(ask(True)).values()) == [200, 200, 200, 404]
    assert list(asyncio.run(ask(False)).values()) == [401, 200, 200, 401]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("weft.weft-system.svc:8443", 200),
        ("WEFT.weft-system.svc", 200),
        ("10.1.2.3:8443", 200),
        ("[fd00::1]:8443", 200),
        ("evil.example", 421),
        ("weft.weft-system.svc.evil.example", 421),
        ("", 421),
    ],
)
def test_foreign_names_are_refused_where_names_are_set(host: str, status: int) -> None:
    async def ask() -> list[int]:
        async with a_scene(Limits(hosts=frozenset({"weft.weft-system.svc"}))) as scene:
            return [
                (await scene.report(Host=host)).status,
                (await scene.call("GET", HEALTH, Host=host)).status,
            ]

    assert asyncio.run(ask()) == [status, status]


# ------------------------------------------------------------------------------ what is heard


def test_a_report_reaches_the_operator() -> None:
    body = {
        "step": 120,
        "total_steps": 400,
        "checkpoint_step": 100,
        "samples": 61_440,
        "loss": 2.25,
        "throughput": 830,
        "stages": {"storage": 0.01, "gpu": 0.2},
        "message": "epoch 1 of 3",
    }

    async def ask() -> tuple[Answer, list[tuple[WorkerIdentity, Report]]]:
        async with a_scene() as scene:
            return await scene.report(body=json.dumps(body)), scene.heard

    got, heard = asyncio.run(ask())
    assert (got.status, got.json) == (200, {"accepted": True, "left_out": []})
    assert heard == [
        (
            LLAMA,
            Report(
                unit=Unit.STEPS,
                done=120,
                total=400,
                saved=100,
                metrics={"samples": 61_440, "loss": 2.25, "throughput": 830},
                stage_seconds={"storage": 0.01, "gpu": 0.2},
                message="epoch 1 of 3",
            ),
        )
    ]
    assert heard[0][1].fraction == 0.3


def test_what_kubeflow_sends() -> None:
    """The body, header and type that its proposal, its SDK and Hugging Face's callback agree on."""
    body = {
        "trainerStatus": {
            "progressPercentage": 45,
            "estimatedRemainingSeconds": 795_649,
            "metrics": [
                {"name": "loss", "value": "0.2347"},
                {"name": "eval/acc", "value": "9.5e-1"},
                {"name": "grad_norm", "value": "nan"},
                {"name": "scheduler", "value": "cosine"},
            ],
            "lastUpdatedTime": "2025-01-23T10:30:45.123456+00:00",
        }
    }

    async def ask(media_type: str) -> tuple[Answer, Report]:
        async with a_scene() as scene:
            path = kubeflow_path("lab", "llama")
            got = await scene.call(
                "POST", path, TOKENS["right"], json.dumps(body), Content_Type=media_type
            )
            return got, scene.heard[0][1]

    for media_type in ("application/json", "application/x-www-form-urlencoded"):
        got, heard = asyncio.run(ask(media_type))
        assert (got.status, got.json["left_out"]) == (200, ["grad_norm", "scheduler"])
        assert heard == Report(
            unit=Unit.PERCENT,
            done=45,
            total=100,
            remaining_seconds=795_649,
            metrics={"loss": 0.2347, "eval/acc": 0.95},
            left_out=("grad_norm", "scheduler"),
        )


@pytest.mark.parametrize(
    ("metrics", "unit", "done", "total"),
    [
        ({"current_step": "30", "total_steps": "70"}, Unit.STEPS, 30, 70),
        ({"current_step": "71", "total_steps": "70"}, Unit.PERCENT, 42, 100),
        ({"current_step": "-1", "total_steps": "70"}, Unit.PERCENT, 42, 100),
        ({"current_step": "0", "total_steps": "0"}, Unit.PERCENT, 42, 100),
        ({"total_steps": "70"}, Unit.PERCENT, 42, 100),
    ],
)
def test_steps_are_finer_than_percent(
    metrics: dict[str, str], unit: Unit, done: float, total: float
) -> None:
    named = [{"name": name, "value": value} for name, value in metrics.items()]
    body = {"trainerStatus": {"progressPercentage": 42, "metrics": named}}
    report = read_kubeflow(json.dumps(body).encode())
    assert (report.unit, report.done, report.total) == (unit, done, total)


def test_an_empty_report_of_kubeflow_says_nothing() -> None:
    for body in (b"{}", b'{"trainerStatus": {}}', b'{"trainerStatus": null}'):
        assert read_kubeflow(body) == Report(unit=Unit.PERCENT)
        assert read_kubeflow(body).fraction is None


def test_at_most_so_many_metrics_are_kept() -> None:
    named = [{"name": f"m{number}", "value": str(number)} for number in range(256)]
    report = read_kubeflow(json.dumps({"trainerStatus": {"metrics": named}}).encode())
    assert list(report.metrics) == [f"m{number}" for number in range(MOST_METRICS)]
    assert len(report.left_out) == MOST_METRICS


INVALID = [
    (400, b""),
    (400, b"step"),
    (400, b'{"step": 3'),
    (400, b'{"step": NaN}'),
    (400, b'{"step": 3, "loss": Infinity}'),
    (400, b"\xff\xfe"),
    (400, b"[" * 5000),
    (422, b"null"),
    (422, b"[]"),
    (422, b"{}"),
    (422, b'{"step": -1}'),
    (422, b'{"step": 1.5}'),
    (422, b'{"step": 3.0}'),
    (422, b'{"step": "3"}'),
    (422, b'{"step": true}'),
    (422, b'{"step": 9007199254740992}'),
    (422, b'{"step": 10000000000000000000000000000}'),
    (422, b'{"step": 3, "total_steps": 0}'),
    (422, b'{"step": 3, "total_steps": 2}'),
    (422, b'{"step": 3, "checkpoint_step": 4}'),
    (422, b'{"step": 3, "loss": 1e19}'),
    (422, b'{"step": 3, "loss": "NaN"}'),
    (422, b'{"step": 3, "throughput": -1}'),
    (422, b'{"step": 3, "stages": {"gpu": -0.5}}'),
    (422, b'{"step": 3, "stages": {"tpu": 1}}'),
    (422, b'{"step": 3, "message": "a\\nb"}'),
    (422, b'{"step": 3, "message": "\\u001b[2J"}'),
    (422, b'{"step": 3, "message": "\\u202egnp"}'),
    (422, b'{"step": 3, "message": "%s"}' % (b"x" * 257)),
    (422, b'{"step": 3, "epoch": 1}'),
    (422, b'{"step": 3, "job": "lab/vit"}'),
]


@pytest.mark.parametrize(("status", "body"), INVALID)
def test_what_is_not_a_report(status: int, body: bytes) -> None:
    with pytest.raises(Refusal) as refusal:
        read_weft(body)
    assert refusal.value.status == status
    assert refusal.value.hint


def test_no_number_is_beyond_bounds_whatever_the_reader_makes_of_it() -> None:
    """Some readers of JSON turn this into an infinity; ours refuses it, and the schema would."""
    with pytest.raises(Refusal) as refusal:
        read_weft(b'{"step": 3, "loss": 1e999}')
    assert refusal.value.status in (400, 422)
    for value in (
        "1e999",
        "1e19",
        "inf",
        "-Infinity",
        "0x10",
        "1_000",
        "\u0661",
        " 1",
        "1e",
        "1" * 64,
    ):
        body = {"trainerStatus": {"metrics": [{"name": "loss", "value": value}]}}
        assert read_kubeflow(json.dumps(body).encode()).metrics == {}


@pytest.mark.parametrize(
    "body",
    [
        {"trainerStatus": {"progressPercentage": 101}},
        {"trainerStatus": {"progressPercentage": -1}},
        {"trainerStatus": {"progressPercentage": 4.5}},
        {"trainerStatus": {"estimatedRemainingSeconds": 2**31}},
        {"trainerStatus": {"metrics": [{"name": "loss", "value": 1.5}]}},
        {"trainerStatus": {"metrics": [{"name": "", "value": "1"}]}},
        {"trainerStatus": {"metrics": [{"name": "a" * 65, "value": "1"}]}},
        {"trainerStatus": {"metrics": [{"name": "a", "value": "1"}] * 257}},
        {"trainerStatus": {"phase": "Running"}},
        {"status": {}},
    ],
)
def test_what_is_not_a_report_of_kubeflow(body: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as refusal:
        read_kubeflow(json.dumps(body).encode())
    assert refusal.value.status == 422


def test_a_fault_is_named_by_its_place_and_repeats_no_value() -> None:
    body = {"step": "sesame", "\x1b[31m<script>" + "y" * 100: 1}
    with pytest.raises(Refusal) as refusal:
        read_weft(json.dumps(body).encode())
    told = str(refusal.value)
    assert "step: Input should be a valid integer" in told
    assert r"\x1b[31m<script>yyy" in told
    assert "unknown field" in told
    assert "sesame" not in told
    assert "\x1b" not in told
    assert "y" * 60 not in told


finite = st.floats(allow_nan=False, allow_infinity=False)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
field_names = st.sampled_from(
    [
        *WeftReport.model_fields,
        *StageTimes.model_fields,
        *KubeflowTrainerStatus.model_fields,
        "trainerStatus",
        "name",
        "value",
    ]
)
report_like = st.recursive(
    anything | st.sampled_from([10**400, -(10**400), 1e308, -0.0, 2**63]),
    lambda inner: st.dictionaries(field_names, inner, max_size=6) | st.lists(inner, max_size=3),
    max_leaves=20,
)


def is_sound(report: Report) -> bool:
    numbers = [report.done, report.total, report.saved, report.remaining_seconds]
    numbers += [*report.metrics.values(), *report.stage_seconds.values()]
    bounded = all(
        number is None or (math.isfinite(number) and abs(number) <= MOST_NUMBER)
        for number in numbers
    )
    return bounded and len(report.metrics) <= MOST_METRICS and report.message.isprintable()


@given(st.binary(max_size=200) | report_like.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_report_or_refused(body: bytes) -> None:
    for read in (read_weft, read_kubeflow):
        try:
            report = read(body)
        except Refusal as refusal:
            assert refusal.status in (400, 422)
            assert len(str(refusal)) < 1000
            assert str(refusal).isprintable()
        else:
            assert is_sound(report)


@given(
    st.fixed_dictionaries(
        {"step": st.integers(0, 10**6)},
        optional={
            "loss": finite.filter(lambda value: abs(value) <= MOST_NUMBER),
            "samples": st.integers(0, 10**12),
            "message": st.text(alphabet=st.characters(categories=["L", "N", "P"]), max_size=256),
        },
    )
)
def test_every_sound_report_is_heard(body: dict[str, Any]) -> None:
    report = read_weft(json.dumps(body).encode())
    assert report.done == body["step"]
    assert report.metrics.get("loss") == body.get("loss")


@pytest.mark.parametrize("round_of", [0, 1])
def test_no_body_makes_the_server_fail(round_of: int) -> None:
    """The same over HTTP, with seeded bytes: never a 500, and nothing is heard that is unsound."""
    chance = Random(round_of)
    seeds = [STEP, PERCENT, b'{"step":1,"stages":{"gpu":0.5},"message":"x"}']

    async def pour() -> set[int]:
        statuses = set()
        async with a_scene(Limits(reports_per_second=1e9)) as scene:
            for _ in range(150):
                body = bytearray(chance.choice(seeds))
                for _ in range(chance.randrange(6)):
                    body.insert(chance.randrange(len(body)), chance.randrange(256))
                path = chance.choice((report_path, kubeflow_path))("lab", "llama")
                got = await scene.call("POST", path, TOKENS["right"], bytes(body))
                statuses.add(got.status)
                assert set(got.json) in ({"error", "hint"}, {"accepted", "left_out"})
            assert all(is_sound(report) for _, report in scene.heard)
        return statuses

    assert asyncio.run(pour()) <= {200, 400, 422}


# ------------------------------------------------------------------------------- size and time


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large(chunked: bool) -> None:
    large = b'{"step": 3, "message": "%s"}' % (b"x" * MOST_BODY_BYTES)

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(large), 8192):
            yield large[start : start + 8192]

    async def ask() -> tuple[Answer, int]:
        async with a_scene() as scene:
            return await scene.report(body=pieces() if chunked else large), len(scene.heard)

    got, heard = asyncio.run(ask())
    assert (got.status, heard) == (413, 0)


def test_a_body_of_the_largest_size_is_read() -> None:
    body = STEP + b" " * (MOST_BODY_BYTES - len(STEP))

    async def ask() -> int:
        async with a_scene() as scene:
            return (await scene.report(body=body)).status

    assert asyncio.run(ask()) == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Content_Type": "text/plain"},
        {"Content_Type": "application/x-www-form-urlencoded"},
        {"Content_Type": "multipart/form-data"},
        {"Content_Encoding": "gzip"},
    ],
)
def test_only_plain_json_is_read(headers: dict[str, str]) -> None:
    async def ask() -> int:
        async with a_scene() as scene:
            return (await scene.report(**headers)).status

    assert asyncio.run(ask()) == 415


async def _rest(scene: Scene, sent: bytes) -> bytes:
    """What the server says to these bytes before it closes the connection."""
    reader, writer = await asyncio.open_unix_connection(str(scene.folder / "workers"))
    try:
        writer.write(sent)
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()


def test_who_only_holds_the_line_is_cut_off() -> None:
    request = (
        f"POST {report_path('lab', 'llama')} HTTP/1.1\r\nHost: weft\r\n"
        f"Authorization: Bearer {TOKENS['right']}\r\nContent-Type: application/json\r\n"
        "Content-Length: 11\r\n\r\n"
    ).encode()

    async def hold(sent: bytes) -> bytes:
        async with a_scene(Limits(idle_seconds=0.2, body_seconds=0.2)) as scene:
            return await _rest(scene, sent)

    assert asyncio.run(hold(b"")) == b""
    assert asyncio.run(hold(request[:60])) == b""
    assert asyncio.run(hold(request + b'{"st')).startswith(b"HTTP/1.1 408 ")


def test_what_is_not_http_is_not_repeated() -> None:
    async def send(sent: bytes) -> bytes:
        async with a_scene() as scene:
            return await _rest(scene, sent)

    for sent in (
        b"GET / HTTP/9.9\r\n<script>\r\n\r\n",
        b"\x16\x03\x01<script>",
        b"<script>\r\n\r\n",
    ):
        told = asyncio.run(send(sent))
        assert told.startswith((b"HTTP/1.0 400 ", b"HTTP/1.1 400 "))
        assert b"script" not in told
        assert b'"hint"' in told


def test_so_many_connections_and_no_more() -> None:
    async def crowd() -> tuple[int, int]:
        async with a_scene(Limits(connections=3)) as scene:
            path = str(scene.folder / "workers")
            held = [await asyncio.open_unix_connection(path) for _ in range(3)]
            await scene_is_aware()
            reader, writer = await asyncio.open_unix_connection(path)
            refused = await asyncio.wait_for(reader.read(), 10)
            for _, other in [*held, (reader, writer)]:
                other.close()
                await other.wait_closed()
            return len(refused), (await scene.report()).status

    async def scene_is_aware() -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    assert asyncio.run(crowd()) == (0, 200)


def a_certificate(folder: Path) -> TlsFiles:
    files = TlsFiles(folder / "tls.crt", folder / "tls.key")
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    made += ["-nodes", "-keyout", str(files.key), "-out", str(files.certificate), "-days", "2"]
    made += ["-subj", "/CN=weft", "-addext", "subjectAltName=DNS:weft"]
    subprocess.run(made, check=True, capture_output=True, timeout=30)
    return files


async def _greeted(door: Path, tls: TlsFiles) -> tuple[bytes, bytes | None]:
    """The first line of an answer over TLS, and the certificate that came with it."""
    trust = ssl.create_default_context(cafile=str(tls.certificate))
    reader, writer = await asyncio.open_unix_connection(
        str(door), ssl=trust, server_hostname="weft"
    )
    try:
        writer.write(f"GET {HEALTH} HTTP/1.1\r\nHost: weft\r\n\r\n".encode())
        line = await reader.readline()
        return line, writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.close()


def test_workers_speak_over_tls_and_certificates_are_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.kube.reports.listener.CERTIFICATE_CHECK_SECONDS", 0.02)
    tls = a_certificate(tmp_path)

    async def ask(folder: Path) -> None:
        server = a_server()
        door = folder / "workers"
        await server.start(workers=door, metrics=folder / "metrics", tls=tls)
        line, first = await _greeted(door, tls)
        assert line == b"HTTP/1.1 200 OK\r\n"
        await asyncio.to_thread(a_certificate, tmp_path)
        async with asyncio.timeout(20):
            while True:
                await asyncio.sleep(0.02)
                try:
                    _, second = await _greeted(door, tls)
                except ssl.SSLError:
                    continue
                break
        assert second != first
        await server.stop()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(ask(Path(folder)))


# ------------------------------------------------------------------------------------- limits


def test_a_noisy_job_is_slowed_and_others_are_not() -> None:
    async def pour() -> tuple[list[int], str, int]:
        async with a_scene(Limits(reports_per_second=0.5, reports_at_once=3)) as scene:
            noisy = [await scene.report() for _ in range(5)]
            path = report_path("lab", "vit")
            other = await scene.call("POST", path, TOKENS["other job"], STEP)
            return [got.status for got in noisy], noisy[-1].headers["Retry-After"], other.status

    assert asyncio.run(pour()) == ([200, 200, 200, 429, 429], "2", 200)


def test_other_ranks_do_not_use_up_the_share_of_the_first() -> None:
    async def pour() -> list[int]:
        async with a_scene(Limits(reports_per_second=0.5, reports_at_once=1)) as scene:
            token = a_token("rank-1")
            scene.vouching.words[token] = vouched("lab", "llama-3-1", "u1")
            scene.workers.pods["lab", "llama-3-1", "u1"] = WorkerIdentity("lab", "llama", 3, 1)
            said = [await scene.report(token), await scene.report(token), await scene.report()]
            return [got.status for got in said]

    assert asyncio.run(pour()) == [200, 429, 200]


def test_few_bad_tokens_per_peer_reach_the_api_server() -> None:
    async def pour() -> tuple[list[int], int, int]:
        async with a_scene(Limits(refused_at_once=4, refused_per_second=0.001)) as scene:
            bad = [(await scene.report(a_token(f"bad-{n}"))).status for n in range(8)]
            return bad, len(scene.vouching.asked), (await scene.call("GET", HEALTH)).status

    assert asyncio.run(pour()) == ([401] * 4 + [429] * 4, 4, 200)


def test_good_tokens_are_not_counted_against_a_peer() -> None:
    async def pour() -> set[int]:
        async with a_scene(Limits(refused_at_once=1, refused_per_second=0.001)) as scene:
            statuses = set()
            for number in range(5):
                token = a_token(f"good-{number}")
                scene.vouching.words[token] = scene.vouching.words[TOKENS["right"]]
                statuses.add((await scene.report(token)).status)
            return statuses

    assert asyncio.run(pour()) == {200}


def test_a_bucket_fills_again_and_never_overflows() -> None:
    now = 0.0
    rates = Rates(2.0, 3, clock=lambda: now)
    for _ in range(3):
        rates.take("a")
    with pytest.raises(Refusal) as refusal:
        rates.take("a")
    assert refusal.value.retry_after_seconds == 0.5
    now = 0.5
    rates.take("a")
    now = 1000.0
    for _ in range(3):
        rates.take("a")
    with pytest.raises(Refusal):
        rates.take("a")
    rates.give_back("a")
    rates.take("a")


def test_buckets_are_bounded_in_number() -> None:
    rates = Rates(1.0, 1, most_keys=100, clock=lambda: 0.0)
    for number in range(10_000):
        rates.take(number)
    assert len(rates) == 100


def test_a_crowd_has_an_end() -> None:
    crowd = Crowd(2)
    with crowd.one_more(), crowd.one_more():
        with pytest.raises(Refusal) as refusal, crowd.one_more():
            pass
        assert refusal.value.status == 429
    with crowd.one_more():
        pass


# ------------------------------------------------------------------------------------- tokens


def test_the_api_server_is_asked_once_a_minute() -> None:
    async def ask() -> tuple[int, int, int]:
        async with a_scene() as scene:
            for _ in range(3):
                await scene.report()
            first = len(scene.vouching.asked)
            scene.now = 59.9
            await scene.report()
            kept = len(scene.vouching.asked)
            scene.now = 60.0
            await scene.report()
            return first, kept, len(scene.vouching.asked)

    assert asyncio.run(ask()) == (1, 1, 2)


def test_a_token_is_not_believed_past_its_expiry() -> None:
    now, wall = 0.0, 1000.0
    token = a_token("short", expires=1020)
    vouching = Vouching({token: vouched("lab", "p", "u")})
    tokens = Tokens(vouching, clock=lambda: now, wall_clock=lambda: wall + now)

    async def ask() -> None:
        nonlocal now
        assert await tokens.caller(token) == Caller("lab", "p", "u")
        now = 19.0
        assert tokens.remembered(token) is not None
        now = 20.0
        assert tokens.remembered(token) is None

    asyncio.run(ask())


def test_a_refusal_is_believed_briefly() -> None:
    now = 0.0
    token = TOKENS["not vouched for"]
    vouching = Vouching()
    tokens = Tokens(vouching, clock=lambda: now)

    async def refused() -> None:
        with pytest.raises(Refusal) as refusal:
            await tokens.caller(token)
        assert refusal.value.status == 401

    async def ask() -> None:
        nonlocal now
        await refused()
        await refused()
        assert len(vouching.asked) == 1
        now = 10.0
        vouching.words[token] = vouched("lab", "p", "u")
        assert await tokens.caller(token) == Caller("lab", "p", "u")

    asyncio.run(ask())


def test_one_question_for_all_who_wait_for_the_answer() -> None:
    async def ask() -> None:
        gate = asyncio.Event()

        async def wait() -> None:
            await gate.wait()

        vouching = Vouching({TOKENS["right"]: vouched("lab", "p", "u")}, wait=wait)
        tokens = Tokens(vouching)
        asking = [asyncio.create_task(tokens.caller(TOKENS["right"])) for _ in range(20)]
        await asyncio.sleep(0)
        asking[0].cancel()
        await asyncio.sleep(0)
        gate.set()
        found = await asyncio.gather(*asking, return_exceptions=True)
        assert isinstance(found[0], asyncio.CancelledError)
        assert set(found[1:]) == {Caller("lab", "p", "u")}
        assert len(vouching.asked) == 1

    asyncio.run(ask())


def test_an_api_server_that_fails_is_not_remembered() -> None:
    async def ask() -> list[Answer]:
        async with a_scene() as scene:
            scene.vouching.fails = True
            failed = await scene.report()
            scene.vouching.fails = False
            return [failed, await scene.report()]

    failed, then = asyncio.run(ask())
    assert (failed.status, "Retry-After" in failed.headers, then.status) == (503, True, 200)


def test_memory_of_tokens_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.kube.reports.tokens.MOST_TOKENS", 10)
    vouching = Vouching()
    tokens = Tokens(vouching)

    async def ask() -> None:
        for number in range(50):
            token = a_token(f"t{number}")
            vouching.words[token] = vouched("lab", "p", "u")
            await tokens.caller(token)
        assert tokens.remembered(a_token("t0")) is None
        assert tokens.remembered(a_token("t49")) is not None

    asyncio.run(ask())


WORD = vouched("lab", "p", "u")
USER = WORD["user"]


@pytest.mark.parametrize(
    "word",
    [
        {},
        {**WORD, "authenticated": "true"},
        {**WORD, "authenticated": False},
        {**WORD, "audiences": None},
        {**WORD, "audiences": []},
        {**WORD, "audiences": ["https://kubernetes.default.svc"]},
        {**WORD, "user": None},
        {**WORD, "user": {**USER, "username": "system:admin"}},
        {**WORD, "user": {**USER, "username": "system:serviceaccount:lab"}},
        {**WORD, "user": {**USER, "username": "system:node:x"}},
        {**WORD, "user": {**USER, "username": "system:serviceaccount:lab:a:b"}},
        {**WORD, "user": {**USER, "extra": None}},
        {**WORD, "user": {**USER, "extra": {POD_NAME: ["p"]}}},
        {**WORD, "user": {**USER, "extra": {POD_NAME: ["p", "q"], POD_UID: ["u"]}}},
        {**WORD, "user": {**USER, "extra": {POD_NAME: [], POD_UID: ["u"]}}},
    ],
)
def test_only_the_full_word_of_the_api_server_counts(word: Mapping[str, Any]) -> None:
    tokens = Tokens(Vouching({TOKENS["right"]: word}))
    with pytest.raises(Refusal) as refusal:
        asyncio.run(tokens.caller(TOKENS["right"]))
    assert refusal.value.status == 401


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a.b",
        "a.b.c",
        "....",
        "x" * 100_000,
        a_token("x", audience=None),
        a_token("x", audience="kubernetes"),
        a_token("x", audience=("kubernetes",)),
        a_token("x").replace(".", "!"),
        a_token("x") + "\n",
        "e30.bnVsbA.e30",
        "e30.W10.e30",
        "é.é.é",
    ],
)
def test_what_is_plainly_no_token_costs_no_question(token: str) -> None:
    vouching = Vouching()
    with pytest.raises(Refusal) as refusal:
        asyncio.run(Tokens(vouching).caller(token))
    assert (refusal.value.status, vouching.asked) == (401, [])


@given(st.text(max_size=80) | st.binary(max_size=60).map(lambda raw: f"e30.{_coded(raw)}.e30"))
def test_any_text_as_a_token_is_refused_without_a_question(token: str) -> None:
    vouching = Vouching()
    with pytest.raises(Refusal):
        asyncio.run(Tokens(vouching).caller(token))
    assert vouching.asked == []


def _coded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic abc", "token abc"])
def test_no_token_in_the_header(header: str | None) -> None:
    with pytest.raises(Refusal) as refusal:
        bearer(header)
    assert refusal.value.status == 401


def test_the_scheme_may_be_written_in_any_case() -> None:
    assert bearer("bearer abc") == "abc"


# ------------------------------------------------------------------------- what is told of it


def test_answers_are_counted_and_tokens_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")

    async def ask() -> Scene:
        async with a_scene() as scene:
            await scene.report()
            await scene.report()
            await scene.report("garbage")
            await scene.report(TOKENS["other job"])
            await scene.report(TOKENS["old epoch"])
            await scene.report(body=b"{}")
            await scene.call("GET", HEALTH)
            return scene

    scene = asyncio.run(ask())
    results = ("accepted", "unauthenticated", "forbidden", "stale", "invalid", "failed")
    counts = [scene.counted(f'weft_reports_total{{result="{result}"}}') for result in results]
    assert counts == [2, 1, 1, 1, 1, 0]
    assert scene.counted('weft_token_reviews_total{outcome="accepted"}') == 3
    assert scene.counted('weft_token_reviews_total{outcome="remembered"}') == 2
    shown = caplog.text + repr([record.__dict__ for record in caplog.records])
    assert not any(token in shown for token in TOKENS.values() if token != "garbage")


def test_a_sink_that_fails_is_our_fault_and_says_no_more(caplog: pytest.LogCaptureFixture) -> None:
    async def ask() -> Answer:
        async with a_scene() as scene:
            scene.heard = None  # type: ignore[assignment]
            return await scene.report()

    got = asyncio.run(ask())
    assert (got.status, got.json["error"]) == (500, "the operator failed")
    assert "AttributeError" in caplog.text


# ------------------------------------------------------------------------- a real API server


@dataclass
class RealTokens:
    """Pods in a real cluster, and tokens that its API server made for them."""

    cluster: ControlPlane
    workers: Workers = field(default_factory=Workers)

    def pod(self, namespace: str, name: str, worker: WorkerIdentity | None = None) -> str:
        """Create a pod that nobody needs to run, and return its uid."""
        spec = {
            "automountServiceAccountToken": False,
            "containers": [{"name": "worker", "image": "none"}],
            "schedulerName": "nobody",
        }
        path = f"/api/v1/namespaces/{namespace}/pods"
        pod = self.cluster.api.must("POST", path, {"metadata": {"name": name}, "spec": spec})
        uid = str(pod["metadata"]["uid"])
        if worker:
            self.workers.pods[namespace, name, uid] = worker
        return uid

    def token(self, namespace: str, pod: str = "", uid: str = "", audience: str = "weft") -> str:
        """As the kubelet asks for it: for one audience, bound to one pod."""
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}
        spec = {
            "audiences": [audience] if audience else [],
            "expirationSeconds": 600,
            "boundObjectRef": bound if pod else None,
        }
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
        return str(self.cluster.api.must("POST", path, {"spec": spec})["status"]["token"])


def real_credentials(cluster: ControlPlane) -> tuple[Workers, dict[str, str]]:
    """For every row of the matrix a token that the API server really made, or a forgery of one."""
    real = RealTokens(cluster)
    for namespace in ("lab", "prod"):
        cluster.add_namespace(namespace)
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        cluster.api.send("POST", path, {"metadata": {"name": "default"}})
    real.workers.epochs = {("lab", "llama"): 3, ("lab", "vit"): 1, ("prod", "llama"): 1}
    right = real.pod("lab", "llama-3-0", LLAMA)
    old = real.pod("lab", "llama-2-0", WorkerIdentity("lab", "llama", 2, 0))
    vit = real.pod("lab", "vit-1-0", WorkerIdentity("lab", "vit", 1, 0))
    prod = real.pod("prod", "llama-1-0", WorkerIdentity("prod", "llama", 1, 0))
    notebook = real.pod("lab", "notebook")
    gone = real.pod("lab", "llama-3-1", WorkerIdentity("lab", "llama", 3, 1))
    tokens = {
        "right": real.token("lab", "llama-3-0", right),
        "old epoch": real.token("lab", "llama-2-0", old),
        "other job": real.token("lab", "vit-1-0", vit),
        "other namespace": real.token("prod", "llama-1-0", prod),
        "no worker": real.token("lab", "notebook", notebook),
        "other audience": real.token("lab", "llama-3-0", right, audience=""),
        "audience of kubeflow": real.token("lab", "llama-3-0", right, "trainer.kubeflow.org"),
        "no pod": real.token("lab"),
        "gone": real.token("lab", "llama-3-1", gone),
        "admin": cluster.admin_token,
    }
    cluster.api.must("DELETE", "/api/v1/namespaces/lab/pods/llama-3-1?gracePeriodSeconds=0")
    head, claims, signature = tokens["other job"].split(".")
    vit_claims = base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4))
    llama_claims = vit_claims.replace(b"vit-1-0", b"llama-3-0").replace(
        vit.encode(), right.encode()
    )
    tokens["forged"] = ".".join((head, _coded(llama_claims), signature))
    unsigned = _coded(b'{"alg":"none","typ":"JWT"}')
    tokens["unsigned"] = f"{unsigned}.{tokens['right'].split('.')[1]}.e30"
    return real.workers, tokens


def expected_of_real(credential: str, method: str, path: str) -> int:
    nobody = {"audience of kubeflow", "no pod", "gone", "admin", "forged", "unsigned"}
    return expected("garbage" if credential in nobody else credential, method, path)


@pytest.mark.cluster
def test_real_tokens_open_what_they_should_and_nothing_else(cluster: ControlPlane) -> None:
    workers, tokens = real_credentials(cluster)
    paths = {template.format(namespace="lab", name="llama") for _, template in ALL_ROUTES}
    operator = str(install_chart(cluster))

    async def walk(folder: Path) -> dict[tuple[str, str, str], tuple[int, int]]:
        found = {}
        heard: list[WorkerIdentity] = []
        async with await Api.connect(kubeconfig=operator) as api:
            server = ReportServer(
                Tokens(api),
                workers,
                lambda identity, _: heard.append(identity),
                lambda: True,
                metrics=Metrics(),
                limits=Limits(refused_at_once=1000),
            )
            await server.start(workers=folder / "workers", metrics=folder / "metrics")
            scene = Scene(folder)
            connector = aiohttp.UnixConnector(str(folder / "workers"))
            async with aiohttp.ClientSession(connector=connector) as scene.door:
                for credential, token in tokens.items():
                    for method, path in itertools.product(METHODS, sorted(paths | set(NOWHERE))):
                        shape = PERCENT if "kubeflow" in path else STEP
                        body = shape if method == "POST" else None
                        got = await scene.call(method, path, token, body)
                        expecting = expected_of_real(credential, method, path)
                        found[credential, method, path] = (got.status, expecting)
            await server.stop()
        assert heard == [LLAMA, LLAMA]
        return found

    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(walk(Path(folder)))
    assert {key: got for key, got in found.items() if got[0] != got[1]} == {}
    assert len(found) == len(tokens) * len(METHODS) * (len(paths) + len(NOWHERE))


@pytest.mark.cluster
def test_a_real_token_dies_with_its_pod(cluster: ControlPlane) -> None:
    workers, tokens = real_credentials(cluster)
    now = 0.0

    async def ask() -> None:
        nonlocal now
        async with await Api.connect(kubeconfig=str(cluster.kubeconfig())) as api:
            known = Tokens(api, clock=lambda: now)
            caller = await known.caller(tokens["right"])
            assert workers.pod(caller.namespace, caller.pod, caller.pod_uid) == LLAMA
            cluster.api.must(
                "DELETE", f"/api/v1/namespaces/lab/pods/{caller.pod}?gracePeriodSeconds=0"
            )
            RealTokens(cluster, workers).pod("lab", caller.pod)
            now = 60.0
            with pytest.raises(Refusal) as refusal:
                await known.caller(tokens["right"])
            assert refusal.value.status == 401

    asyncio.run(ask())


@pytest.mark.cluster
def test_a_real_review_without_the_right_to_ask(cluster: ControlPlane) -> None:
    _, tokens = real_credentials(cluster)

    async def ask() -> int:
        async with await Api.connect(kubeconfig=str(cluster.kubeconfig("alice"))) as api:
            with pytest.raises(Refusal) as refusal:
                await Tokens(api).caller(tokens["right"])
            return refusal.value.status

    assert asyncio.run(ask()) == 503
