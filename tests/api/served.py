"""A world in memory behind the real app on a real Unix socket, in a thread of its own."""

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.api.memory import MemoryWorld
from tests.waiting import HANG_SECONDS
from weft.api.app import create_app
from weft.api.serving import serve_on
from weft.api.socket_file import EVERYBODY, listen_at
from weft.view.jobs import JobPicture

T = TypeVar("T")


@dataclass
class Served:
    """The world, where it listens, and a way to do something in its loop."""

    world: MemoryWorld
    socket: Path
    loop: asyncio.AbstractEventLoop
    stop: asyncio.Event

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(HANG_SECONDS)


@contextmanager
def serving(
    path: Path, *jobs: JobPicture, admins: tuple[int, ...] = (os.geteuid(),)
) -> Iterator[Served]:
    """While inside, the world answers; these jobs are in it before it does."""
    ready: list[Served] = []
    up = threading.Event()

    async def serve() -> None:
        file = listen_at(path, mode=EVERYBODY)
        world = MemoryWorld()
        for job in jobs:
            await world.put(job)
        served = Served(world, path, asyncio.get_running_loop(), asyncio.Event())
        ready.append(served)
        up.set()
        try:
            await serve_on(create_app(world, admins=admins), file.listening, served.stop)
        finally:
            file.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert up.wait(HANG_SECONDS)
    try:
        yield ready[0]
    finally:
        ready[0].loop.call_soon_threadsafe(ready[0].stop.set)
        thread.join(HANG_SECONDS)
        assert not thread.is_alive()
