"""Every address × every method × everybody: who is answered what, from the table of routes."""

import asyncio
import itertools
from dataclasses import replace
from typing import Any

import pytest
from fastapi.routing import APIRoute

from tests.api.asgi import ALICE, BOB, ROOT, Answer, ask
from tests.api.memory import MemoryWorld, a_failed_job, a_waiting_job
from weft.api.app import create_app
from weft.api.backend import JobKey
from weft.api.peer import OVERFLOW_UID, Peer, user_name
from weft.api.routes import routes_to
from weft.api.streams import Streams
from weft.failure.diagnosis import diagnose
from weft.failure.lines import Line
from weft.failure.rulebook import shipped
from weft.failure.written import written
from weft.view.diagnosed import told_failure

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
OWNER = user_name(ALICE.uid)
KEY = JobKey(OWNER, "llama")
PEOPLE = {"nobody": None, "owner": ALICE, "other": BOB, "root": ROOT}
BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/v1/jobs"): {"name": "new", "spec": {"run": "true"}},
    ("POST", "/v1/jobs/{name}/cancel"): {"dry_run": True},
    ("POST", "/v1/stop"): {"jobs": "kill"},
}
# Who may: everybody, the owner and administrators, or administrators alone; and what they get.
RULES: dict[tuple[str, str], tuple[str, int]] = {
    ("GET", "/v1/jobs"): ("everybody", 200),
    ("POST", "/v1/jobs"): ("everybody", 201),
    ("GET", "/v1/jobs/{name}"): ("owner", 200),
    ("GET", "/v1/jobs/{name}/why"): ("owner", 200),
    ("POST", "/v1/jobs/{name}/cancel"): ("owner", 200),
    ("POST", "/v1/jobs/{name}/retry"): ("owner", 200),
    ("GET", "/v1/jobs/{name}/logs"): ("owner", 200),
    ("GET", "/v1/jobs/{name}/changes"): ("owner", 200),
    ("GET", "/v1/changes"): ("everybody", 200),
    ("GET", "/v1/nodes"): ("everybody", 200),
    ("GET", "/v1/failures"): ("everybody", 200),
    ("GET", "/v1/queues"): ("everybody", 200),
    ("GET", "/v1/top"): ("everybody", 200),
    ("POST", "/v1/stop"): ("root", 202),
    ("GET", "/healthz"): ("everybody", 200),
}
MAY = {
    "everybody": {"owner", "other", "root"},
    "owner": {"owner", "root"},
    "root": {"root"},
}
TABLE = routes_to(MemoryWorld(), Streams()).routes
ROUTES = sorted({route.path for route in TABLE if isinstance(route, APIRoute)})


def test_the_rules_speak_of_every_route() -> None:
    served = create_app(MemoryWorld()).openapi()["paths"]
    assert {path for _, path in RULES} == set(ROUTES) == set(served)
    assert len(TABLE) == len(RULES)
    told = {"everybody": "everybody", "owner": "owner", "administrator": "root"}
    for (method, path), (may, _) in RULES.items():
        assert told[served[path][method.lower()]["tags"][0]] == may, "the schema tells it too"


@pytest.mark.parametrize("person", PEOPLE)
def test_who_may_what(person: str) -> None:
    async def work() -> None:
        world = MemoryWorld()
        app = create_app(world)
        for path, method in itertools.product(ROUTES, METHODS):
            await world.put(a_waiting_job(KEY))
            world.pictures.pop(JobKey("root", "new"), None)
            world.asked.clear()
            answer = await ask(
                app,
                method,
                path.format(name=KEY.name),
                peer=PEOPLE[person],
                query={"owner": OWNER} if "{name}" in path else {},
                body=BODIES.get((method, path)),
            )
            check(person, method, path, answer)
            served = answer.status < 300
            assert bool(world.asked) is served, "a refusal does not reach the backend"

    asyncio.run(work())


def check(person: str, method: str, path: str, answer: Answer) -> None:
    """The answer is the one that the rules give this person."""
    may, status = RULES.get((method, path), ("nobody", 405))
    if person == "nobody":
        wanted = 401, "identity"
    elif status == 405:
        wanted = 405, "request"
    elif person in MAY[may]:
        assert answer.status == status, (method, path, answer.body)
        return
    else:
        wanted = 403, "forbidden"
    assert (answer.status, answer.json["code"]) == wanted, (method, path)
    assert answer.json["hint"]


def test_what_a_program_printed_before_it_failed_is_its_owners() -> None:
    async def work() -> None:
        world = MemoryWorld()
        told = told_failure(
            written(diagnose([Line("KeyError: 'secret'")], shipped())),
            namespace=OWNER,
            job=KEY.name,
            queue="default",
            epoch=1,
            at=None,
            did="KeyError: 'secret'; given up",
        )
        picture = a_waiting_job(KEY)
        await world.put(replace(picture, detail=replace(picture.detail, failure=told)))
        for person, may in (("owner", True), ("other", False), ("root", True)):
            query = {"everyone": "true"}
            answer = await ask(
                create_app(world), "GET", "/v1/failures", peer=PEOPLE[person], query=query
            )
            (line,) = answer.json["failures"]
            assert line["rule"] == "python_semantic"
            assert ("secret" in str(line)) is may, person

    asyncio.run(work())


def test_elsewhere_there_is_nothing() -> None:
    app = create_app(MemoryWorld())
    paths = ("/", "/v1", "/v1/job", "/v1/jobs/", "/v1/jobs/a/b", "/docs", "/v1/jobs/No%20Name")
    for path, (person, peer) in itertools.product(paths, PEOPLE.items()):
        answer = asyncio.run(ask(app, "GET", path, peer=peer))
        assert answer.status in ((401,) if person == "nobody" else (404, 422))
        assert set(answer.json) == {"error", "hint", "code"}


def test_the_schema_is_for_everybody_who_is_known() -> None:
    app = create_app(MemoryWorld())
    for person, peer in PEOPLE.items():
        answer = asyncio.run(ask(app, "GET", "/openapi.json", peer=peer))
        assert answer.status == (401 if person == "nobody" else 200)


def test_one_s_own_jobs_need_no_owner() -> None:
    async def work() -> list[int]:
        world = MemoryWorld()
        await world.put(a_waiting_job(KEY))
        app = create_app(world)
        places = ("", "/why", "/logs", "/changes")
        pairs = itertools.product((ALICE, BOB, ROOT), places)
        return [(await ask(app, "GET", f"/v1/jobs/llama{p}", peer=who)).status for who, p in pairs]

    assert asyncio.run(work()) == [200] * 4 + [404] * 8


def test_words_about_a_job_are_for_its_owner() -> None:
    async def work() -> dict[str, list[str | None]]:
        world = MemoryWorld()
        await world.put(a_waiting_job(KEY))
        app, seen = create_app(world), {}
        for person in ("owner", "other", "root"):
            answer = await ask(
                app, "GET", "/v1/jobs", peer=PEOPLE[person], query={"everyone": "true"}
            )
            seen[person] = [line["message"] for line in answer.json["jobs"]]
            assert [line["name"] for line in answer.json["jobs"]] == ["llama"]
        return seen

    seen = asyncio.run(work())
    assert seen["owner"] == seen["root"] != [None]
    assert seen["other"] == [None]


def test_the_list_is_one_s_own_or_another_s_or_everybody_s() -> None:
    async def work() -> list[list[str]]:
        world = MemoryWorld()
        await world.put(a_waiting_job(KEY))
        await world.put(a_failed_job(JobKey(user_name(BOB.uid), "vit")))
        app = create_app(world)
        queries: list[dict[str, Any]] = [
            {},
            {"owner": OWNER},
            {"everyone": "true"},
            {"everyone": "true", "state": ["", "Queued"]},
            {"everyone": "true", "queue": "other"},
            {"everyone": "true", "limit": 1},
        ]
        answers = [await ask(app, "GET", "/v1/jobs", peer=BOB, query=query) for query in queries]
        assert answers[-1].json["left"] == 1
        return [[line["name"] for line in answer.json["jobs"]] for answer in answers]

    assert asyncio.run(work()) == [["vit"], ["llama"], ["llama", "vit"], ["llama"], [], ["llama"]]


def test_whom_the_kernel_cannot_name_is_refused() -> None:
    """In a user namespace many people look like this one."""
    peer = Peer(1, OVERFLOW_UID, OVERFLOW_UID)
    answer = asyncio.run(ask(create_app(MemoryWorld()), "GET", "/v1/jobs", peer=peer))
    assert (answer.status, answer.json["code"]) == (403, "forbidden")


def test_the_daemon_s_own_user_may_be_an_administrator() -> None:
    async def work() -> tuple[int, int]:
        world = MemoryWorld()
        app = create_app(world, admins=(0, ALICE.uid))
        first = await ask(app, "POST", "/v1/stop", peer=ALICE)
        second = await ask(app, "POST", "/v1/stop", peer=BOB)
        assert world.stopped == ["drain"]
        return first.status, second.status

    assert asyncio.run(work()) == (202, 403)


def test_a_user_without_a_name_goes_by_the_number() -> None:
    assert user_name(ALICE.uid) == str(ALICE.uid)
    assert user_name(0) == "root"
