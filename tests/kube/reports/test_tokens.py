"""Only the word of the API server counts, and it is asked no more than needed."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kube.reports.reporting import TOKENS, Answer, Vouching, a_scene, a_token, coded, vouched
from weft.kube.reports.refusal import Refusal
from weft.kube.reports.tokens import POD_NAME, POD_UID, Caller, Tokens, bearer


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


@given(st.text(max_size=80) | st.binary(max_size=60).map(lambda raw: f"e30.{coded(raw)}.e30"))
def test_any_text_as_a_token_is_refused_without_a_question(token: str) -> None:
    vouching = Vouching()
    with pytest.raises(Refusal):
        asyncio.run(Tokens(vouching).caller(token))
    assert vouching.asked == []


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic abc", "token abc"])
def test_no_token_in_the_header(header: str | None) -> None:
    with pytest.raises(Refusal) as refusal:
        bearer(header)
    assert refusal.value.status == 401


def test_the_scheme_may_be_written_in_any_case() -> None:
    assert bearer("bearer abc") == "abc"
