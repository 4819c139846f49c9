"""Too large, too slow, too often, too many: refused, and nobody else suffers."""

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.agent.reports.endpoint import a_certificate
from tests.kube.reports.reporting import (
    STEP,
    TOKENS,
    Answer,
    Scene,
    a_scene,
    a_server,
    a_token,
    vouched,
)
from tests.waiting import hang_guard
from weft.kube.reports.limits import Crowd, Limits, Rates
from weft.kube.reports.listener import TlsFiles
from weft.kube.reports.payload import MOST_BODY_BYTES
from weft.kube.reports.refusal import Refusal
from weft.kube.reports.server import HEALTH, WorkerIdentity, report_path
from weft.model.errors import WorldError


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


async def rest(scene: Scene, sent: bytes) -> bytes:
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
            return await rest(scene, sent)

    assert asyncio.run(hold(b"")) == b""
    assert asyncio.run(hold(request[:60])) == b""
    assert asyncio.run(hold(request + b'{"st')).startswith(b"HTTP/1.1 408 ")


def test_what_is_not_http_is_not_repeated() -> None:
    async def send(sent: bytes) -> bytes:
        async with a_scene() as scene:
            return await rest(scene, sent)

    for sent in (
        b"GET / HTTP/9.9\r\n<script>\r\n\r\n",
        b"\x16\x03\x01<script>",
        b"<script>\r\n\r\n",
    ):
        told = asyncio.run(send(sent))
        assert told.startswith((b"HTTP/1.0 400 ", b"HTTP/1.1 400 "))
        assert b"script" not in told
        assert b'"hint"' in told


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
    tls = a_certificate(tmp_path, "weft")

    async def ask(folder: Path) -> None:
        server = a_server()
        door = folder / "workers"
        await server.start(workers=door, metrics=folder / "metrics", tls=tls)
        line, first = await _greeted(door, tls)
        assert line == b"HTTP/1.1 200 OK\r\n"
        await asyncio.to_thread(a_certificate, tmp_path, "weft")
        async with hang_guard("the new certificate"):
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
    with crowd.one_more("a"), crowd.one_more("a"), crowd.one_more("b"):
        with pytest.raises(Refusal) as refusal, crowd.one_more("a"):
            pass
        assert refusal.value.status == 429
    with crowd.one_more():
        pass


def test_slow_bodies_of_one_tenant_leave_room_for_others() -> None:
    async def crowd() -> tuple[list[int], int]:
        limits = Limits(concurrent_per_namespace=2, body_seconds=0.5, reports_at_once=10**6)
        async with a_scene(limits) as scene:

            async def never() -> AsyncIterator[bytes]:
                yield STEP[:4]
                await asyncio.Event().wait()

            async def hold() -> int:
                async with hang_guard("the answer"):
                    return (await scene.report(body=never())).status

            path = report_path("prod", "llama")
            holding = [asyncio.create_task(hold()) for _ in range(4)]
            async with hang_guard("a refusal"):
                while (await scene.report()).status != 429:
                    await asyncio.sleep(0)
            other = await scene.call("POST", path, TOKENS["other namespace"], STEP)
            return sorted(await asyncio.gather(*holding)), other.status

    assert asyncio.run(crowd()) == ([408, 408, 429, 429], 200)


def test_an_address_that_is_taken_is_named(tmp_path: Path) -> None:
    async def ask() -> None:
        first, second = a_server(), a_server()
        with tempfile.TemporaryDirectory() as folder:
            nowhere = Path(folder) / "none" / "m"
            with pytest.raises(WorldError, match="cannot listen at") as error:
                await first.start(workers=Path(folder) / "w", metrics=nowhere)
            assert error.value.hint
            await first.stop()
            missing = TlsFiles(tmp_path / "no.crt", tmp_path / "no.key")
            with pytest.raises(WorldError, match="cannot use"):
                await second.start(
                    workers=Path(folder) / "w2", metrics=Path(folder) / "m2", tls=missing
                )
            await second.stop()

    asyncio.run(ask())
