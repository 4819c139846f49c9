"""Answers: what is taken, what is refused and how, whatever somebody sends."""

import asyncio
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.api.asgi import ALICE, ROOT, Answer, ask
from tests.api.memory import MemoryWorld, a_running_job
from weft.api.app import create_app
from weft.api.backend import CARRIED, JobKey, Origin
from weft.api.errors import CODES, KINDS, Taken, status_and_code, told
from weft.api.gate import MOST_BODY_BYTES
from weft.model.errors import InfeasibleSpec, JournalError, SpecError, WeftError, WorldError

KEY = JobKey("root", "llama")
JOB = {"name": "new", "spec": {"run": "python train.py", "resources": {"gpus": "1..4"}}}
WORLD = MemoryWorld()
APP = create_app(WORLD)

words = st.text(max_size=8)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)


def posted(body: object, **more: Any) -> Answer:
    return asyncio.run(ask(APP, "POST", "/v1/jobs", body=body, **more))


@pytest.fixture(autouse=True)
def world() -> MemoryWorld:
    """An empty one behind the same app, because an app takes a while to make."""
    for kept in (WORLD.pictures, WORLD.origins, WORLD.asked):
        kept.clear()
    WORLD.fails = None
    return WORLD


def test_a_job_is_taken_in_as_it_was_written(world: MemoryWorld) -> None:
    answer = posted(JOB)
    assert answer.status == 201
    assert answer.json["spec"] == JOB["spec"]
    assert answer.json["line"]["namespace"] == "root"
    assert [key.name for key in world.pictures] == ["new"]


def test_a_dry_run_leaves_nothing(world: MemoryWorld) -> None:
    assert posted(JOB | {"dry_run": True}).status == 200
    assert not world.pictures


def test_where_it_comes_from_is_handed_on(world: MemoryWorld) -> None:
    posted(JOB, peer=ALICE)
    environment = dict.fromkeys(CARRIED, "x")
    posted(JOB | {"origin": {"workdir": "/a b", "environment": environment}})
    assert world.origins == [Origin(), Origin("/a b", environment)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "No Name"}, "body.name"),
        ({"name": "x" * 51}, "body.name"),
        ({"unheard": 1}, "body.unheard"),
        ({"dry_run": "yes"}, "body.dry_run"),
        ({"spec": []}, "body.spec"),
        ({"spec": {}}, "new, run"),
        ({"spec": {"run": "x", "gpus": 2}}, "gpus: there is no such field"),
        ({"spec": {"run": "x", "name": "y"}}, "name: there is no such field"),
        ({"spec": {"run": "x", "resources": {"gpus": "many"}}}, "resources.gpus"),
        ({"spec": {"run": "x", "queue": "none"}}, "there is no queue 'none'"),
        ({"origin": {"workdir": "relative"}}, "body.origin.workdir"),
        ({"origin": {"workdir": "/a\x00b"}}, "body.origin.workdir"),
        ({"origin": {"environment": {"LD_PRELOAD": "x"}}}, "body.origin.environment.LD_PRELOAD"),
        ({"origin": {"environment": {"PATH": "a\x00"}}}, "body.origin.environment.PATH"),
    ],
)
def test_what_cannot_be_used_is_named(
    world: MemoryWorld, change: dict[str, Any], words: str
) -> None:
    answer = posted(JOB | change)
    assert answer.status == 422
    assert words in answer.json["error"]
    assert answer.json["hint"]
    assert not world.pictures


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"[]", b'"x"', b"null", b"NaN"])
def test_what_is_no_request_is_refused(raw: bytes) -> None:
    answer = posted(None, raw=raw)
    assert (answer.status, answer.json["code"]) in ((422, "spec"), (400, "request"))


def test_too_much_is_refused() -> None:
    answer = posted(None, raw=b" " * (MOST_BODY_BYTES + 1))
    assert (answer.status, answer.json["code"]) == (413, "request")


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/v1/jobs", {"stat": "Running"}),
        ("/v1/jobs", {"limit": "-1"}),
        ("/v1/jobs", {"limit": "many"}),
        ("/v1/jobs", {"everyone": "perhaps"}),
        ("/v1/jobs", {"owner": "../etc"}),
        ("/v1/jobs", {"state": ["x"] * 99}),
        ("/v1/jobs/llama", {"user": "alice"}),
        ("/v1/jobs/llama/logs", {"rank": "-1"}),
        ("/v1/jobs/llama/logs", {"rank": ["0"] * 2000}),
        ("/v1/jobs/llama/logs", {"tails": "1"}),
        ("/v1/nodes", {"all": "1"}),
        ("/v1/changes", {"since": "1"}),
        ("/v1/top", {"x": "1"}),
        ("/healthz", {"x": "1"}),
        ("/v1/jobs/NoName", {}),
    ],
)
def test_what_is_asked_for_wrongly_is_refused(
    world: MemoryWorld, path: str, query: dict[str, Any]
) -> None:
    answer = asyncio.run(ask(APP, "GET", path, query=query))
    assert (answer.status, answer.json["code"]) == (422, "spec")
    assert not world.asked


@pytest.mark.parametrize("kind", CODES)
def test_an_error_arrives_as_what_it_was(world: MemoryWorld, kind: type[WeftError]) -> None:
    world.fails = kind("it broke", hint="mend it")
    answer = asyncio.run(ask(APP, "GET", "/v1/nodes"))
    assert answer.status == CODES[kind][0]
    error = told(answer.json, status=answer.status)
    assert (type(error), str(error), error.hint) == (kind, "it broke", "mend it")


def test_kinds_of_errors() -> None:
    assert len(KINDS) == len(CODES)
    assert status_and_code(InfeasibleSpec("")) == (422, "infeasible")
    assert status_and_code(JournalError("")) == (500, "internal")
    assert isinstance(told({}, status=502), WorldError)
    assert "status 502" in str(told({}, status=502))
    assert issubclass(KINDS["infeasible"], SpecError)
    assert issubclass(KINDS["taken"], Taken)


def test_a_name_in_use() -> None:
    assert [posted(JOB).status for _ in range(2)] == [201, 409]


def test_a_defect_tells_nothing_of_itself(world: MemoryWorld) -> None:
    world.fails = RuntimeError("the password is swordfish")
    answer = Answer()
    with pytest.raises(RuntimeError):  # it goes on to the server's log
        asyncio.run(ask(APP, "GET", "/v1/nodes", into=answer))
    assert (answer.status, answer.json["code"]) == (500, "internal")
    assert b"swordfish" not in answer.body


def test_numbers_that_json_cannot_write_are_null(world: MemoryWorld) -> None:
    async def work() -> Answer:
        picture = a_running_job(KEY)
        picture.detail.metrics["loss"] = float("nan")
        await world.put(picture)
        return await ask(APP, "GET", "/v1/jobs/llama")

    assert asyncio.run(work()).json["detail"]["metrics"] == {"loss": None}


@given(body=plain)
def test_no_body_breaks_the_server(body: object) -> None:
    answer = asyncio.run(ask(APP, "POST", "/v1/jobs", body=body))
    assert answer.status == 422
    assert set(answer.json) == {"error", "hint", "code"}


@given(raw=st.binary(max_size=64), path=st.sampled_from(["/v1/jobs", "/v1/stop"]))
def test_no_bytes_break_the_server(raw: bytes, path: str) -> None:
    answer = asyncio.run(ask(APP, "POST", path, raw=raw))
    assert answer.status in ((400, 422) if path == "/v1/jobs" else (202, 400, 422))


@given(spec=st.dictionaries(st.sampled_from(["run", "resources", "env", "queue"]), plain))
def test_no_job_file_breaks_the_server(spec: dict[str, object]) -> None:
    answer = asyncio.run(
        ask(APP, "POST", "/v1/jobs", body={"name": "x", "spec": spec, "dry_run": True})
    )
    assert answer.status in (200, 422)


@given(
    path=st.sampled_from(["/v1/jobs", "/v1/jobs/llama", "/v1/jobs/llama/logs", "/v1/top"]),
    query=st.dictionaries(
        st.sampled_from(["owner", "everyone", "state", "queue", "limit", "rank", "tail", "zz"]),
        words | st.lists(words, max_size=3),
        max_size=4,
    ),
)
def test_no_query_breaks_the_server(path: str, query: dict[str, Any]) -> None:
    answer = asyncio.run(ask(APP, "GET", path, peer=ROOT, query=query))
    assert answer.status in (200, 404, 422)
    assert orjson.loads(answer.body) is not None


@given(name=st.text(max_size=12))
def test_no_address_breaks_the_server(name: str) -> None:
    answer = asyncio.run(ask(APP, "GET", f"/v1/jobs/{name}"))
    assert answer.status in (404, 422)
