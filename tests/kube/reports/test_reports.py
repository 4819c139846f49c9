"""Workers report on themselves, and nobody else gets in: over HTTP, route by route."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from random import Random

import pytest

from tests.kube.reports.reporting import (
    ALL_ROUTES,
    FOLLOWER,
    LLAMA,
    METHODS,
    NOWHERE,
    PERCENT,
    STEP,
    TOKENS,
    Answer,
    Scene,
    a_scene,
    authorization,
    body_for,
    expected,
    is_sound,
)
from weft.kube.reports.limits import Limits
from weft.kube.reports.payload import Report, Unit
from weft.kube.reports.server import (
    HEALTH,
    MEETING,
    METRICS,
    READY,
    ROUTES,
    WorkerIdentity,
    kubeflow_path,
    report_path,
)


def test_the_route_table_is_what_is_documented() -> None:
    assert sorted(ALL_ROUTES) == sorted(
        [("POST", route.path) for route in ROUTES]
        + [("GET", MEETING), ("POST", MEETING), ("GET", HEALTH), ("GET", READY)]
    )


@pytest.mark.parametrize("credential", ["none", "empty", "basic", *TOKENS])
def test_every_route_by_every_method(credential: str) -> None:
    paths = {template.format(namespace="lab", name="llama") for _, template in ALL_ROUTES}

    async def walk() -> dict[tuple[str, str], tuple[int, int]]:
        found = {}
        async with a_scene(Limits(refused_at_once=1000)) as scene:
            scene.meet()
            for method, path in itertools.product(METHODS, sorted(paths | set(NOWHERE))):
                body = body_for(path) if method == "POST" else None
                given = {"Authorization": authorization(credential)} if credential != "none" else {}
                got = await scene.call(method, path, None, body, **given)
                found[method, path] = (got.status, expected(credential, method, path))
                if got.body:
                    assert isinstance(got.json, dict)
                assert got.headers["Server"] == "weft"
            speaker = {"right": LLAMA, "follower": FOLLOWER}.get(credential)
            assert [identity for identity, _ in scene.heard] == [speaker] * 2 * bool(speaker)
        return found

    wrong = {route: got for route, got in asyncio.run(walk()).items() if got[0] != got[1]}
    assert wrong == {}


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
        "width": 4,
        "live": True,
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
                metrics={"samples": 61_440, "loss": 2.25, "throughput": 830, "width": 4},
                stage_seconds={"storage": 0.01, "gpu": 0.2},
                message="epoch 1 of 3",
                live=True,
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
