"""An operator asks whether a service answers, where a file says that it is."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from tests.kube.operator.stage import Stage, played
from tests.waiting import until_async
from weft.brain.event import HealthRecalled, Tick
from weft.failure.breaker import Breaker
from weft.failure.health import Health

STATUSES = (b"503 Service Unavailable", b"200 OK")


def is_open(stage: Stage) -> bool:
    return breaker(stage).is_open


def breaker(stage: Stage) -> Breaker:
    return stage.term.brain.state.failures.health.breaker("http")


@pytest.mark.enable_socket
def test_a_service_is_asked_until_it_answers(tmp_path: Path) -> None:
    asked: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        status = STATUSES[len(asked)]
        asked.append(await reader.readline())
        writer.write(b"HTTP/1.1 " + status + b"\r\n\r\n")
        writer.close()

    async def scene() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        file = tmp_path / "rules.yaml"
        file.write_text(f"services: {{http: 'http://127.0.0.1:{port}/health'}}\n")
        stage = Stage(failure_rules=str(file))
        for cache in stage.informers.all:
            cache.synced.set()
        running = asyncio.create_task(stage.term.run())
        await stage.term.wait_until_begun()
        decider = stage.term.decider
        now = stage.term.now()
        down = Breaker(service="http", opened_seconds=now, failed_jobs=5)
        decider.deliver(HealthRecalled(now, Health(breakers=(down,))))
        decider.deliver(Tick(now + 1.0))
        await until_async(lambda: breaker(stage).heard_seconds, "the first answer")
        assert is_open(stage), "it said that it cannot"
        decider.deliver(Tick(stage.term.now() + 31.0))
        await until_async(lambda: not is_open(stage), "the breaker to close")
        assert asked == [b"GET /health HTTP/1.1\r\n"] * 2
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        server.close()

    played(scene)
