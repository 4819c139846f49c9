"""The local world behind the HTTP API: what a user of the machine may ask of it.

Who asks comes from the kernel and what is somebody else's is refused at the door, so what is left
here is to look things up, to write wishes down, and to wait for what comes. A wish is on disk
before it is answered.
"""

import asyncio
import json
import pwd
import re
import secrets
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

from weft.api.backend import Farewell, Identity, JobKey, Origin, Selection
from weft.api.errors import Forbidden, NoSuchJob
from weft.local import crash
from weft.local.agents.cgroups import Cgroups
from weft.local.answers import views
from weft.local.answers.health import UserCheck, findings
from weft.local.answers.logs import LogReader
from weft.local.folders import Folders
from weft.local.machine import disk_space as room
from weft.local.machine import fitness
from weft.local.machine.foreign_use import reason_of
from weft.local.reconcile.parsed_request import parse_request, refuse_impossible
from weft.local.record.entry import Entry, Happening, Owner, slots_held
from weft.local.record.store import Store, name_taken
from weft.local.term import Term
from weft.model.errors import SpecError, WorldError
from weft.model.state import State
from weft.view.failures import FailurePage
from weft.view.health import Finding
from weft.view.jobs import JobDetail, JobLine, JobPage, JobPicture, Standing, nearest
from weft.view.logs import LogLine, Which
from weft.view.node_health import health_of
from weft.view.node_page import NodePage
from weft.view.queues import QueueLine
from weft.view.use import Use, widest_first

NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
MOST_SPEC_BYTES: Final = 256 * 1024
MOST_WAITING: Final = 1_000
MOST_SHOWN: Final = 10_000
DAY_SECONDS: Final = 86_400.0
MOST_NEAR: Final = 1_000
NEWS_SECONDS: Final = 0.2
UID: Final = re.compile(r"[0-9a-f]{16}")
AGAIN: Final = (State.FAILED, State.CANCELLED)
NO_PLANS: Final = "model has no effect here: the recipe {} chooses no plans"
FINAL: Final = frozenset(state.name.capitalize() for state in State if state.final)


class Host(Protocol):
    """The daemon, as far as those who ask are concerned."""

    folders: Folders
    store: Store
    recipe: str
    cgroups: Cgroups | None
    user_check: UserCheck

    @property
    def term(self) -> Term: ...
    @property
    def news(self) -> "News": ...
    def stop(self, farewell: Farewell) -> None: ...


class News:
    """A number that grows whenever something looks otherwise, and a way to wait for that."""

    def __init__(self) -> None:
        self.number = 0
        self._changed = asyncio.Event()

    def tell(self) -> None:
        self.number += 1
        self._changed.set()

    async def after(self, number: int) -> int:
        """A later number; changes of one moment come as one."""
        while self.number <= number:
            self._changed.clear()
            await self._changed.wait()
        await asyncio.sleep(NEWS_SECONDS)
        return self.number


class LocalBackend:
    """Answers for one machine."""

    def __init__(self, host: Host) -> None:
        self._host = host

    # --- wishes ---------------------------------------------------------------------------------

    async def submit(
        self, who: Identity, spec: Mapping[str, Any], name: str, *, origin: Origin, dry_run: bool
    ) -> JobDetail:
        term = self._host.term
        _check(spec, name)
        now = time.time()
        entry = Entry(
            uid=secrets.token_hex(8),
            owner=_owner(who),
            name=name,
            spec=dict(spec),
            origin=origin,
            submitted_at=now,
            waiting_since=now,
        )
        found = parse_request(entry, term.machine, term.limits)
        refuse_impossible(found.job, term.machine, term.limits)
        if found.spec.model is not None and term.brain.recipe.planning is None:
            found = replace(found, notes=(*found.notes, NO_PLANS.format(term.brain.recipe.name)))
        self._refuse_crowd(who.user)
        before = self._host.store.newest(who.user, name)
        if before is not None:
            found = replace(found, notes=(*found.notes, _about(before)))
        if dry_run and term.book.named(entry.id) is not None:
            raise name_taken(entry)
        if not dry_run:
            happening = Happening(now, "Submitted", "; ".join(found.notes))
            entry = await self._take_in(entry, happening)
        return views.detail_of(entry, term.brain, term.machine, found)

    async def _take_in(self, entry: Entry, happening: Happening) -> Entry:
        """Its folder first, for without it nothing could be started; then the record."""
        folders = self._host.folders
        folders.make_job(entry.uid, entry.owner)
        try:
            entry = await self._host.term.book.add(entry, happening)
        except BaseException:
            folders.remove_job(entry.uid)
            raise
        crash.passing("submitted")
        return entry

    async def cancel(self, who: Identity, job: JobKey, *, dry_run: bool) -> JobLine:
        entry = await self._theirs(who, job)
        term = self._host.term
        if not (dry_run or entry.state.final or entry.cancelled):
            happening = Happening(time.time(), "Cancelling", f"asked by {who.user}", entry.epoch)
            entry = await term.book.change(entry.uid, happening, cancelled=True)
        return views.line_of(entry, term.brain, term.machine)

    async def retry(self, who: Identity, job: JobKey) -> JobLine:
        """The same job, with its folder and its past: it goes on from what it has saved."""
        entry, term = await self._theirs(who, job), self._host.term
        if entry.state not in AGAIN:
            raise SpecError(
                f"{job} is {entry.state.name.capitalize()}, and not one to be tried again",
                hint="weft submit makes another one; weft cancel ends one that runs",
            )
        self._refuse_crowd(who.user)
        self._host.folders.make_job(entry.uid, entry.owner)
        now = time.time()
        happening = Happening(now, "Retried", f"asked by {who.user}", entry.epoch)
        entry = await term.book.revive(entry, happening, **_as_new(entry, now))
        return views.line_of(entry, term.brain, term.machine)

    async def stop(self, who: Identity, farewell: Farewell) -> None:
        self._host.stop(farewell)

    # --- looks ----------------------------------------------------------------------------------

    async def jobs(self, who: Identity, wanted: Selection) -> JobPage:
        term, host = self._host.term, self._host
        entries = [entry for entry in term.book if not entry.state.final]
        if not wanted.states or wanted.states & FINAL:
            limit = MOST_SHOWN if wanted.most is None else wanted.most + 1
            entries += await term.book.read(host.store.over, user=wanted.owner, limit=limit)
        lines = [views.line_of(entry, term.brain, term.machine) for entry in entries]
        chosen = [line for line in lines if _is_wanted(line, wanted)]
        kept = chosen[: wanted.most]
        return JobPage(tuple(kept), str(term.book.version), len(chosen) - len(kept))

    async def job(self, who: Identity, job: JobKey) -> JobPicture:
        entry, term = await self._theirs(who, job), self._host.term
        history = await term.book.read(self._host.store.history, entry.uid)
        workers = views.workers_of(entry, term.observe(entry), term.machine) if entry.held else ()
        return JobPicture(self._detail(entry), workers, tuple(map(views.event_of, history)))

    async def why(self, who: Identity, job: JobKey) -> Standing:
        entry, term = await self._theirs(who, job), self._host.term
        detail = self._detail(entry)
        if detail.reasons and term.foreign_watch.free():
            told = reason_of(term.foreign_watch.found, len(term.machine.slots))
            detail = replace(detail, reasons=(*detail.reasons, told))
        if detail.reasons and term.fitness.unfit:
            told = fitness.reason_of(term.fitness.unfit)
            detail = replace(detail, reasons=(told, *detail.reasons))
        if detail.reasons and term.room.low:
            detail = replace(detail, reasons=(room.reason_of(term.room.low), *detail.reasons))
        return Standing(detail, self._queue(), views.growth_of(entry, term.brain))

    async def logs(
        self, who: Identity, job: JobKey, which: Which, *, follow: bool
    ) -> AsyncGenerator[LogLine, None]:
        entry, host = await self._theirs(who, job), self._host

        def now() -> Entry | None:
            return host.term.book.get(entry.uid) or host.store.get(entry.uid)

        reader = LogReader(host.folders, now, host.term.machine.name)
        async for line in reader.lines(which, follow=follow):
            yield line

    async def changes(self, who: Identity, job: JobKey) -> AsyncGenerator[JobDetail | None, None]:
        host, uid = self._host, (await self._theirs(who, job)).uid
        number = -1
        while (entry := host.term.book.get(uid) or host.store.get(uid)) is not None:
            detail = self._detail(entry)
            if detail.version != number:
                number = detail.version
                yield detail
            await host.news.after(host.news.number)
        yield None

    async def news(self, who: Identity) -> AsyncGenerator[int, None]:
        number = self._host.news.number
        while True:
            yield number
            number = await self._host.news.after(number)

    async def nodes(self, who: Identity) -> NodePage:
        term = self._host.term
        foreign_watch = term.foreign_watch
        foreign = None if foreign_watch.note else len(foreign_watch.free())
        notes = [foreign_watch.note] if foreign_watch.note else []
        notes += [f"{one} is used outside of Weft" for one in foreign_watch.found]
        known, name = term.brain.state.failures.health, term.machine.node.id
        health = health_of(known, name, term.now(), names=who.admin)
        return NodePage((views.node_of(term.machine, term.book, foreign, health),), tuple(notes))

    async def failures(self, who: Identity, owner: str | None, days: float) -> FailurePage:
        since = time.time() - days * DAY_SECONDS
        find = self._host.store.failures
        found = await self._host.term.book.read(find, since, user=owner, limit=MOST_SHOWN)
        lines = (views.past_failure(entry, happening) for entry, happening in found)
        return FailurePage(tuple(line for line in lines if line is not None))

    async def queues(self, who: Identity) -> tuple[QueueLine, ...]:
        term, queue = self._host.term, self._queue()
        limit = term.limits.user_slots
        return (queue, *views.users_of(term.book, term.ledger.users, queue, limit))

    async def top(self, who: Identity, owner: str | None) -> Use:
        term = self._host.term
        lines = [views.line_of(entry, term.brain, term.machine) for entry in term.book]
        mine = [line for line in lines if owner in (None, line.namespace) and not line.finished]
        holding = widest_first(mine)
        slots = len(term.machine.slots)
        return Use(
            nodes=1,
            ready_nodes=1,
            gpus=slots,
            ready_gpus=slots,
            used_gpus=slots_held(term.book),
            running=len(holding),
            waiting=len(mine) - len(holding),
            jobs=holding,
        )

    async def health(self, who: Identity) -> tuple[Finding, ...]:
        host = self._host
        users = await asyncio.to_thread(host.user_check.finding, _owner(who))
        return await asyncio.to_thread(
            findings, host.folders, host.term.machine, users, host.cgroups
        )

    # --- helpers --------------------------------------------------------------------------------

    async def _theirs(self, who: Identity, job: JobKey) -> Entry:
        """The job, if it is theirs to open: a name may have belonged to another account before."""
        entry = await self._found(job)
        if not who.admin and entry.owner.uid != who.uid:
            raise Forbidden(f"{job} belongs to {entry.owner.user}", hint="weft ls shows yours")
        return entry

    async def _found(self, job: JobKey) -> Entry:
        term, store = self._host.term, self._host.store
        entry = term.book.named(str(job))
        if entry is None:
            entry = await term.book.read(store.newest, job.owner, job.name)
        if entry is None and UID.fullmatch(job.name):
            entry = await term.book.read(store.kept, job.owner, job.name)
        if entry is not None:
            return entry
        over = await term.book.read(store.over, user=job.owner, limit=MOST_NEAR)
        known = [entry for entry in term.book if entry.owner.user == job.owner]
        names = list(dict.fromkeys(entry.name for entry in (*known, *over)))
        raise NoSuchJob(
            f"no job '{job.name}' of '{job.owner}'",
            hint=nearest(job.name, names, elsewhere="weft submit makes one"),
        )

    def _detail(self, entry: Entry) -> JobDetail:
        term = self._host.term
        return views.detail_of(entry, term.brain, term.machine, term.asked(entry)[0])

    def _queue(self) -> QueueLine:
        term = self._host.term
        return views.queue_of(term.machine, term.book, self._host.recipe, term.book.version)

    def _refuse_crowd(self, user: str) -> None:
        waiting = sum(e.owner.user == user and not e.held for e in self._host.term.book)
        if waiting >= MOST_WAITING:
            raise WorldError(
                f"{user} has {waiting} jobs that wait, and no more are taken in",
                hint="wait until some have started, or cancel some",
            )


def _check(spec: Mapping[str, Any], name: str) -> None:
    if not NAME.fullmatch(name):
        raise SpecError(f"'{name[:80]}' is no name", hint="a-z, 0-9 and -, up to 63 characters")
    if len(json.dumps(spec)) > MOST_SPEC_BYTES:
        raise SpecError("the job file is larger than 256 KB", hint="keep data in files of its own")


def _about(before: Entry) -> str:
    return f"the last job of this name is kept: weft show {before.uid}"


def _as_new(entry: Entry, now: float) -> dict[str, Any]:
    """What is to be forgotten of a job that is tried again: how it ended, and how often."""
    return {
        "state": State.QUEUED,
        "cancelled": False,
        "party": "",
        "end": None,
        "message": "",
        "exit_code": None,
        "past": replace(entry.past, failures=0, refusals=0),
        "submitted_at": now,
        "waiting_since": now,
        "started_at": None,
        "ended_at": None,
        "stopping_since": None,
    }


def _owner(who: Identity) -> Owner:
    try:
        return Owner(who.user, who.uid, pwd.getpwuid(who.uid).pw_gid)
    except KeyError:
        return Owner(who.user, who.uid, who.uid)


def _is_wanted(line: JobLine, wanted: Selection) -> bool:
    return (
        wanted.owner in (None, line.namespace)
        and (not wanted.states or line.state in wanted.states)
        and wanted.queue in (None, line.queue)
    )
