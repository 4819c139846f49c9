"""The world on this machine, asked over its socket."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from weft.api.backend import CARRIED, JobKey, Origin, Selection
from weft.api.client import Client, Stream
from weft.api.errors import NoAnswer, NoSuchJob
from weft.api.peer import user_name
from weft.cli.terminal.screen import say
from weft.cli.worlds.away import away, streamed
from weft.cli.worlds.world import Emit
from weft.model.errors import SpecError
from weft.view.failures import FailurePage
from weft.view.health import Finding
from weft.view.jobs import JobDetail, JobLine, JobPage, JobPicture, Standing
from weft.view.logs import LogLine, Which
from weft.view.node_page import NodePage
from weft.view.queues import QueueLine
from weft.view.use import Use

AGAIN_SECONDS: Final = 1.0
MOST_TRIES: Final = 60
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MachineWorld:
    """`namespace` is the user whose jobs are meant."""

    client: Client
    namespace: str
    whose: str = "user"

    @classmethod
    def at(cls, socket: Path, user: str | None) -> "MachineWorld":
        return cls(Client(socket), user or user_name(os.geteuid()))

    @property
    def title(self) -> str:
        return f"local · {self.client.socket}"

    def document(self, spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        """The job file itself, with the name that it gets."""
        return {"name": name, **spec}

    async def submit(self, spec: Mapping[str, Any], name: str, *, dry_run: bool) -> JobDetail:
        """Everybody submits for themselves: a job runs as whoever asks for it."""
        if self.namespace != user_name(os.geteuid()):
            raise SpecError(
                f"you cannot submit a job of {self.namespace}'s", hint="leave -n out; it is yours"
            )
        origin = origin_here()
        return await away(lambda: self.client.submit(spec, name, origin=origin, dry_run=dry_run))

    async def jobs(self, wanted: Selection) -> JobPage:
        return await away(lambda: self.client.jobs(wanted))

    def watch_jobs(self, wanted: Selection) -> AsyncGenerator[JobPage, None]:
        return self._watch(lambda: self.client.jobs(wanted))

    async def job(self, key: JobKey) -> JobPicture:
        return await away(lambda: self.client.job(key.name, owner=key.owner))

    async def detail(self, key: JobKey) -> JobDetail:
        return (await self.job(key)).detail

    async def why(self, key: JobKey) -> Standing:
        return await away(lambda: self.client.why(key.name, owner=key.owner))

    async def cancel(self, key: JobKey, *, dry_run: bool) -> JobLine:
        return await away(lambda: self.client.cancel(key.name, owner=key.owner, dry_run=dry_run))

    async def retry(self, key: JobKey) -> JobLine:
        return await away(lambda: self.client.retry(key.name, owner=key.owner))

    async def logs(self, key: JobKey, which: Which) -> AsyncGenerator[LogLine, None]:
        """Whatever its workers left, even after its end."""
        nothing = True
        begin = partial(self.client.logs, key.name, which, owner=key.owner)
        async with aclosing(streamed(begin)) as batches:
            async for batch in batches:
                nothing = False
                for line in batch:
                    yield line
        if nothing:
            _must_have_run(await self.detail(key))

    async def follow_logs(self, key: JobKey, which: Which, emit: Emit) -> JobDetail | None:
        """Each line once, though the daemon be started anew meanwhile."""
        bookmark = Bookmark()

        def begin() -> Stream[LogLine]:
            stream = self.client.logs(key.name, which, owner=key.owner, follow_on=True)
            bookmark.open()
            return stream

        # What was left out before the last lines cannot be counted, nor found again.
        lines = self._kept_up(begin) if which.tail is None else streamed(begin)
        try:
            async with aclosing(lines) as batches:
                async for batch in batches:
                    for line in filter(bookmark.is_new, batch):
                        emit(line)
            return await self.detail(key)
        except NoSuchJob:
            if bookmark.opened == 0:
                raise
            return None

    async def changes(self, key: JobKey) -> AsyncGenerator[JobDetail | None, None]:
        begin = partial(self.client.changes, key.name, owner=key.owner)
        begun = False
        try:
            async with aclosing(self._kept_up(begin)) as batches:
                async for batch in batches:
                    begun = True
                    for detail in batch:
                        yield detail
        except NoSuchJob:
            if not begun:
                raise
            yield None

    async def nodes(self) -> NodePage:
        return await away(self.client.nodes)

    async def failures(self, namespace: str | None, days: float) -> FailurePage:
        return await away(lambda: self.client.failures(namespace, days))

    async def queues(self) -> tuple[QueueLine, ...]:
        return await away(self.client.queues)

    async def visible_queues(self) -> tuple[QueueLine, ...] | None:
        return await self.queues()

    def watch_queues(self) -> AsyncGenerator[tuple[QueueLine, ...], None]:
        return self._watch(self.client.queues)

    async def top(self, namespace: str | None) -> Use:
        return await away(lambda: self.client.top(namespace))

    def watch_top(self, namespace: str | None) -> AsyncGenerator[Use, None]:
        return self._watch(lambda: self.client.top(namespace))

    async def health(self, operator_namespace: str | None) -> tuple[Finding, ...]:
        """What the daemon finds; that it answers is the first of it."""
        if operator_namespace is not None:
            say("note: --operator-namespace is for a cluster")
        return (await away(self.client.health)).findings

    async def _watch(self, read: Callable[[], T]) -> AsyncGenerator[T, None]:
        """Read again whenever something has changed; however often it did, once."""
        async with aclosing(self._kept_up(self.client.news)) as news:
            async for _ in news:
                with suppress(NoAnswer):  # the news break off too, and are taken up again
                    yield await away(read)

    async def _kept_up(self, begin: Callable[[], Stream[T]]) -> AsyncGenerator[list[T], None]:
        """A stream that has begun is taken up again if the daemon is started anew meanwhile."""
        tries = MOST_TRIES

        def begun() -> Stream[T]:
            nonlocal tries
            stream = begin()
            tries = 0
            return stream

        while True:
            try:
                async with aclosing(streamed(begun)) as batches:
                    async for batch in batches:
                        yield batch
                return
            except NoAnswer:
                tries += 1
                if tries > MOST_TRIES:
                    raise
            await asyncio.sleep(AGAIN_SECONDS)


class Bookmark:
    """How many lines of each worker were read; a log that is opened again begins at its first."""

    def __init__(self) -> None:
        self._read: Counter[tuple[int, int]] = Counter()
        self._again: Counter[tuple[int, int]] = Counter()
        self.opened = 0

    def open(self) -> None:
        self.opened += 1
        self._again = self._read.copy()

    def is_new(self, line: LogLine) -> bool:
        place = line.rank, line.epoch
        if self._again[place]:
            self._again[place] -= 1
            return False
        self._read[place] += 1
        return True


def origin_here() -> Origin:
    """This folder, and what of this shell says what a command means in it."""
    carried = {name: os.environ[name] for name in CARRIED if os.environ.get(name)}
    try:
        return Origin(str(Path.cwd()), carried)
    except OSError:  # somebody has removed it
        return Origin("", carried)


def _must_have_run(detail: JobDetail) -> None:
    line = detail.line
    if line.waiting and line.started_at is None:
        hint = f"weft why {line.name} tells why it waits; weft logs -f waits with you"
        raise SpecError(f"'{line.name}' has no workers: it is {line.state or 'New'}", hint=hint)
