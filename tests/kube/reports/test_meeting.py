"""The workers of a job find their head, and nobody else finds it: over HTTP, and in memory."""

import asyncio
import json

import pytest

from tests.kube.reports.reporting import HEAD, KEY, MEETING, TOKENS, Answer, Scene, a_scene
from weft.kube.reports.headship import Headship
from weft.kube.reports.limits import Limits
from weft.kube.reports.meeting import Head, Meetings, read_head
from weft.kube.reports.refusal import Refusal
from weft.kube.reports.server import Outlook, WorkerIdentity


async def say(scene: Scene, token: str = "right", body: bytes = HEAD) -> Answer:
    return await scene.call("POST", MEETING, TOKENS[token], body)


async def ask(scene: Scene, token: str = "follower") -> Answer:
    return await scene.call("GET", MEETING, TOKENS[token])


def test_a_follower_asks_until_the_head_has_said_where_it_is() -> None:
    async def play() -> list[Answer]:
        async with a_scene() as scene:
            return [await ask(scene), await say(scene), await ask(scene), await ask(scene, "right")]

    early, said, found, again = asyncio.run(play())
    assert (early.status, early.headers["Retry-After"]) == (404, "1")
    assert "not said yet" in early.json["error"]
    assert said.status == 200
    assert said.json == {
        "accepted": True,
        "term": 1,
        "lost": [],
        "closed": [],
        "stopping": False,
    }
    assert found.status == again.status == 200
    told = {"epoch": 3, "address": "10.1.2.3:29400", "key": KEY}
    assert found.json == {**told, "term": 1, "lost": []}
    assert found.headers["Cache-Control"] == "no-store"


def test_the_head_of_an_earlier_epoch_is_no_head() -> None:
    async def play() -> list[int]:
        async with a_scene() as scene:
            scene.meet()
            before = (await ask(scene)).status
            scene.workers.epochs["lab", "llama"] = 4
            late = (await ask(scene)).status
            where = ("lab", "llama-3-7", "follower")
            scene.workers.pods[where] = WorkerIdentity("lab", "llama", 4, 7)
            return [before, late, (await ask(scene)).status]

    assert asyncio.run(play()) == [200, 409, 404]


def test_another_job_of_the_same_name_does_not_inherit_a_head() -> None:
    async def play() -> int:
        async with a_scene() as scene:
            scene.meet()
            where = ("lab", "llama-3-7", "follower")
            scene.workers.pods[where] = WorkerIdentity("lab", "llama", 3, 7, owner="reborn")
            return (await ask(scene)).status

    assert asyncio.run(play()) == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 422),
        (b"{}", 422),
        (HEAD.replace(b"10.1.2.3", b"[fd00::1]"), 200),
        (HEAD.replace(b"10.1.2.3", b"weft.example"), 422),
        (HEAD.replace(b":29400", b":0"), 422),
        (HEAD.replace(b":29400", b":99999"), 422),
        (HEAD.replace(b":29400", b""), 422),
        (HEAD.replace(KEY.encode(), b"secret-but-not-hex-and-so-refused"), 422),
        (HEAD.replace(KEY.encode(), b"5e"), 422),
        (HEAD.replace(b'"epoch": 3', b'"epoch": 2'), 409),
        (HEAD.replace(b'"epoch": 3', b'"epoch": "3"'), 422),
        (HEAD.replace(b'"epoch": 3', b'"epoch": 3, "more": 1'), 422),
        (b" " * 70_000 + HEAD, 413),
    ],
)
def test_what_a_head_may_say(body: bytes, status: int) -> None:
    async def play() -> tuple[Answer, int]:
        async with a_scene() as scene:
            return await say(scene, body=body), len(scene.meetings)

    got, known = asyncio.run(play())
    assert (got.status, known) == (status, int(status == 200))
    assert b"secret" not in got.body


def test_a_newer_word_replaces_an_older_one() -> None:
    async def play() -> tuple[Answer, int]:
        async with a_scene() as scene:
            await say(scene)
            await say(scene, body=HEAD.replace(b"10.1.2.3", b"10.9.9.9"))
            return await ask(scene), len(scene.meetings)

    found, known = asyncio.run(play())
    assert (found.json["address"], known) == ("10.9.9.9:29400", 1)


def test_a_replica_that_does_not_lead_knows_no_head() -> None:
    async def play() -> list[int]:
        async with a_scene() as scene:
            scene.meet()
            scene.leading = False
            return [(await ask(scene)).status, (await say(scene)).status]

    assert asyncio.run(play()) == [503, 503]


def test_whoever_asks_too_often_has_to_wait_and_others_do_not() -> None:
    async def play() -> tuple[list[int], int]:
        async with a_scene(Limits(reports_per_second=1e-9, reports_at_once=3)) as scene:
            scene.meet()
            many = [(await ask(scene)).status for _ in range(5)]
            return many, (await say(scene)).status

    assert asyncio.run(play()) == ([200, 200, 200, 429, 429], 200)


def test_the_key_is_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")

    async def play() -> Scene:
        async with a_scene() as scene:
            await say(scene)
            await ask(scene)
            await say(scene, "follower")
            await say(scene, body=HEAD.replace(b'"epoch"', b'"epoche"'))
            await say(scene, body=HEAD[:-1])
            return scene

    scene = asyncio.run(play())
    shown = caplog.text + repr([record.__dict__ for record in caplog.records])
    assert KEY not in shown + repr(read_head(HEAD, epoch=3))
    assert KEY not in scene.metrics.exposition()[0].decode()
    # Neither a word nor an answer is a report; what was refused is counted.
    results = ("accepted", "forbidden", "invalid")
    counts = [scene.counted(f'weft_reports_total{{result="{result}"}}') for result in results]
    assert counts == [0, 1, 2]


def test_memory_is_bounded_and_the_oldest_goes_first() -> None:
    meetings = Meetings(most=2)
    for job in ("a", "b", "a", "c"):
        meetings.say(job, Head(1, f"10.0.0.1:{ord(job)}", KEY))
    assert len(meetings) == 2
    assert meetings.head("a", 1).address == "10.0.0.1:97"
    with pytest.raises(Refusal):
        meetings.head("b", 1)


def test_what_is_over_is_forgotten() -> None:
    meetings = Meetings()
    for job, epoch in (("a", 1), ("b", 2), ("c", 1)):
        meetings.say(job, Head(epoch, "10.0.0.1:1", KEY))
    meetings.keep(lambda job, epoch: (job, epoch) in {("a", 1), ("b", 3)})
    assert len(meetings) == 1
    assert json.loads(json.dumps(meetings.head("a", 1).answer))["key"] == KEY


# --- headship moves ---------------------------------------------------------------------------


def a_claim(term: int, *lost: int) -> bytes:
    return HEAD.replace(b"}", f', "term": {term}, "lost": {list(lost)}}}'.encode())


def status(known: Headship, claim: Headship) -> int:
    try:
        known.followed_by(claim)
    except Refusal as refusal:
        return refusal.status
    return 200


def test_the_first_that_claims_a_term_has_it_and_older_heads_are_refused() -> None:
    led = Headship().followed_by(Headship(2, 2))
    assert led == Headship(2, 2)
    assert status(led, Headship(1, 2)) == 410
    assert status(led, Headship(0, 1)) == 410
    assert status(led, Headship(0, 1, (2,))) == 410
    assert led.followed_by(Headship(2, 2)) == led
    assert status(led, Headship(1, 3)) == 200


def test_a_seat_that_a_head_has_done_without_never_leads_in_that_epoch() -> None:
    """Not in a later term either: what it holds is as old as its loss."""
    known = Headship().followed_by(Headship(0, 1, (1,)))
    assert known.lost == (1,)
    assert known.followed_by(Headship()) == known, "an older word of the same head takes none back"
    assert status(known, Headship(1, 2)) == 410
    later = known.followed_by(Headship(2, 2, (3,)))
    assert later == Headship(2, 2, (1, 3))
    assert status(later, Headship(1, 3)) == 410


def test_a_claim_comes_by_the_same_door_and_hears_which_seats_are_about_to_go() -> None:
    async def play() -> tuple[list[Answer], Headship]:
        async with a_scene() as scene:
            scene.workers.seen = Outlook(closed=(0,))
            early = await say(scene, "follower")
            answers = [early, await say(scene), await say(scene, "follower", a_claim(2, 4))]
            answers += [await say(scene), await ask(scene)]
            return answers, scene.workers.heads["llama"]

    (early, first, claimed, old, found), record = asyncio.run(play())
    assert [one.status for one in (early, first, claimed, old)] == [403, 200, 200, 410]
    assert "seat 7 leads" in old.json["error"]
    told = {"accepted": True, "term": 2, "lost": [4]}
    assert claimed.json == {**told, "closed": [0], "stopping": False}
    assert found.json["term"] == 2
    assert record == Headship(7, 2, (4,))


def test_of_those_who_claim_at_once_one_leads() -> None:
    async def play() -> tuple[list[int], Headship]:
        async with a_scene() as scene:
            second = ("lab", "llama-3-0", "right")
            scene.workers.pods[second] = WorkerIdentity("lab", "llama", 3, 8)
            claims = [say(scene, token, a_claim(2)) for token in ("follower", "right")]
            answers = await asyncio.gather(*claims)
            return sorted(one.status for one in answers), scene.workers.heads["llama"]

    statuses, record = asyncio.run(play())
    assert statuses == [200, 410]
    assert record.term == 2


def test_a_claim_that_cannot_be_put_on_record_is_not_granted() -> None:
    async def play() -> tuple[int, int, Answer]:
        async with a_scene() as scene:
            await say(scene)
            scene.workers.fails = True
            claimed = await say(scene, "follower", a_claim(2))
            return claimed.status, (await say(scene)).status, await ask(scene)

    claimed, old, found = asyncio.run(play())
    assert (claimed, old, found.json["term"]) == (503, 200, 1)


def test_an_operator_that_has_just_begun_knows_from_the_record_who_leads() -> None:
    async def play() -> list[int]:
        async with a_scene() as scene:
            scene.workers.heads["llama"] = Headship(7, 2)
            return [(await say(scene)).status, (await say(scene, "follower", a_claim(2))).status]

    assert asyncio.run(play()) == [410, 200]


def test_the_head_that_leads_is_the_one_that_reports_for_the_job() -> None:
    async def play() -> list[bool]:
        async with a_scene() as scene:
            await scene.report(TOKENS["follower"])
            scene.workers.heads["llama"] = Headship(7, 2)
            await scene.report(TOKENS["follower"])
            await scene.report(TOKENS["right"])
            return [worker.is_head for worker, _ in scene.heard]

    assert asyncio.run(play()) == [False, True, False]
