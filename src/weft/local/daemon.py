"""The daemon: one process that serves a folder and a socket, from term to term.

Its end is no end for jobs: asked to stop by a signal it leaves them training and says so, and the
next daemon of the folder takes them over. Only who asks for it by name (`weft local down`) has them
save and leave first.
"""

import asyncio
import fcntl
import grp
import logging
import os
import secrets
import signal
import sys
import time
from typing import IO, Any, Final

from weft.api.app import create_app
from weft.api.backend import Farewell
from weft.api.serving import serve_on
from weft.api.socket_file import EVERYBODY, GROUP, OWNER, SocketFile, listen_at
from weft.brain.brain import Settings
from weft.failure.rulebook import shipped
from weft.local.agents.cgroups import cgroups_of
from weft.local.agents.launch import AGENT, Launcher
from weft.local.answers.backend import LocalBackend, News
from weft.local.answers.health import UserCheck
from weft.local.folders import Folders
from weft.local.machine.machine import this_machine
from weft.local.options import LocalOptions
from weft.local.reconcile.preemption import HOUR_SECONDS
from weft.local.reconcile.step import Rules
from weft.local.record.retention import Retention
from weft.local.record.store import Store
from weft.local.term import RULES, OpenJournal, Term, TermSettings
from weft.model.errors import NotLeading, SpecError, WeftError, WorldError
from weft.spec.failure_rules import read_rules, read_services
from weft.spec.notify_file import read_outbox
from weft.spec.recipe import make_recipe

log = logging.getLogger(__name__)

INSTANCE: Final = "instance"
PARTING_SECONDS: Final = 2.0
FIRST_PAUSE_SECONDS: Final = 1.0
MOST_PAUSE_SECONDS: Final = 60.0
MINUTE_SECONDS: Final = 60.0


class Daemon:
    """Everything that outlives a term."""

    def __init__(
        self,
        options: LocalOptions,
        open_journal: OpenJournal,
        *,
        agent: str = AGENT,
        rules: Rules = RULES,
    ) -> None:
        self._options = options
        self._open_journal = open_journal
        self._rules = rules
        self.recipe = options.recipe
        make_recipe(options.recipe)
        self.folders = Folders(options.folder)
        self.folders.check_depth()
        self.folders.open(for_all=os.geteuid() == 0)
        self._lock = _locked(self.folders)
        self.store = Store.at(self.folders.store)
        instance = self.store.setting(INSTANCE, secrets.token_hex(4))
        machine = this_machine(options.slots)
        paths = tuple(path for path in sys.path if os.path.isabs(path))
        self.cgroups = cgroups_of(instance)
        own = options.failure_rules
        book = None if own is None else read_rules(own)
        self._services = {} if own is None else read_services(own)
        self._launcher = Launcher(
            self.folders, machine, instance, agent, paths, self.cgroups, book or shipped()
        )
        self.user_check = UserCheck(self._launcher, options.group)
        self.news = News()
        notify = options.notify
        self._outbox = None if notify is None else read_outbox(notify, f"weft/{machine.name}")
        self._term: Term | None = None
        self._farewell: asyncio.Future[Farewell] | None = None

    @property
    def term(self) -> Term:
        if self._term is None:
            raise WorldError("the daemon is about to begin", hint="try again in a moment")
        return self._term

    async def serve(self) -> None:
        """Until told to stop."""
        loop = asyncio.get_running_loop()
        self._farewell = loop.create_future()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, Farewell.KEEP)
        file = self._listen()
        answered = asyncio.Event()
        app = create_app(LocalBackend(self), admins=(0, os.getuid()))
        tasks: set[asyncio.Task[None]] = {
            loop.create_task(self._terms(), name="terms"),
            loop.create_task(serve_on(app, file.listening, answered), name="api"),
            loop.create_task(self._retention().run(time.time), name="retention"),
        }
        try:
            awaited: set[asyncio.Future[Any]] = {*tasks, self._farewell}
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            if self._farewell.done():
                await self._part(self._farewell.result())
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            answered.set()
            await self._end(tasks)
            if self._outbox is not None:
                await asyncio.to_thread(self._outbox.close, PARTING_SECONDS)
            file.close()
            if self.cgroups is not None:
                self.cgroups.remove()
            self._lock.close()
            self.store.close()

    def stop(self, farewell: Farewell) -> None:
        if self._farewell is not None and not self._farewell.done():
            self._farewell.set_result(farewell)

    async def _part(self, farewell: Farewell) -> None:
        holding = sum(1 for entry in self.term.book if entry.held) if self._term else 0
        if farewell is Farewell.KEEP:
            log.info("stops; jobs that go on training until the next one: %d", holding)
            return
        log.info("stops; jobs that are asked to leave first: %d", holding)
        await self.term.clear(at_once=farewell is Farewell.KILL)

    async def _terms(self) -> None:
        """One after the other; a defect costs a pause that grows."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            began = time.monotonic()
            try:
                await self._serve_term()
            except WeftError as error:
                log.exception("a term ended: %s", error)
            except Exception:
                log.exception("a term ended by a defect")
            if time.monotonic() - began > MOST_PAUSE_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            await asyncio.sleep(pause)
            pause = min(2 * pause, MOST_PAUSE_SECONDS)

    async def _serve_term(self) -> None:
        options = self._options
        self._term = Term(
            self.store,
            self._launcher,
            TermSettings(
                recipe=options.recipe,
                brain=Settings(
                    backoff_seconds=options.backoff_seconds,
                    mixes_tenants=False,
                    single_seats=True,
                    trial_seconds=options.trial_minutes * MINUTE_SECONDS,
                ),
                rules=self._rules,
                limits=options.limits,
                services=self._services,
                gang_probe_seconds=options.gang_probe_hours * HOUR_SECONDS,
            ),
            open_journal=self._open_journal,
            told=self.news.tell,
            outbox=self._outbox,
        )
        try:
            await self._term.run()
        finally:
            self._term = None

    def _listen(self) -> SocketFile:
        options = self._options
        if os.geteuid() != 0:
            return listen_at(options.socket, mode=OWNER)
        if options.group is None:
            return listen_at(options.socket, mode=EVERYBODY)
        return listen_at(options.socket, mode=GROUP, group=_group(options.group))

    def _retention(self) -> Retention:
        options = self._options
        return Retention(self.folders, self.store, days=options.keep_days, gib=options.keep_gib)

    async def _end(self, tasks: set[asyncio.Task[None]]) -> None:
        """The API answers what is under way; the others stop where they are."""
        for task in tasks:
            if task.get_name() != "api":
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _locked(folders: Folders) -> IO[str]:
    """Held for as long as this process lives."""
    lock = folders.lock.open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.close()
        raise NotLeading(
            f"another daemon serves {folders.root}", hint="weft local status tells how it stands"
        ) from error
    return lock


def _group(name: str) -> int:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError as error:
        raise SpecError(f"no group '{name}'", hint="getent group lists them") from error
