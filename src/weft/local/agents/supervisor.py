"""Agents of this machine: started, found again after a restart, watched, spoken to and ended.

One watch looks after the present incarnation of each job. It asks the agent twice a second how the
job stands and hears from the kernel when the process ends, also when it was started by an earlier
daemon. It decides nothing: what it sees is there to be looked at, and a change of it is told.
"""

import asyncio
import logging
import os
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from weft.agent.evidence import EVIDENCE, WELL
from weft.agent.messages import Accompany, Answer, Message
from weft.agent.messages import Status as AskStatus
from weft.agent.run_folder import SHARED_MEMORY, SLOTS
from weft.agent.wire.orders import CARD, KEY, SOCKET
from weft.failure.diagnosis import Diagnosis
from weft.failure.interval import Advice
from weft.local.agents import inquest
from weft.local.agents import job_processes as processes
from weft.local.agents.account import Account
from weft.local.agents.agent_client import AgentClient
from weft.local.agents.agent_process import AgentProcess
from weft.local.agents.bootstrap import EXISTS_STATUS
from weft.local.agents.launch import Launcher
from weft.local.folders import OUTCOME, TOKEN, folder_of, read_file, remove_tree
from weft.local.machine.kernel_log import Concern
from weft.local.reconcile.observation import (
    KILLED,
    LastWords,
    ObservedAgent,
    Presence,
    Status,
    read_last_words,
    read_status,
)
from weft.local.record.entry import Birth, Entry, Owner
from weft.model.errors import WorldError
from weft.model.state import State

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.5
FIRST_POLL_SECONDS: Final = 0.1
SWEEP_SECONDS: Final = 0.05
MOST_SWEEPS: Final = 200

WAITING: Final = (State.QUEUED, State.ADMITTED)

Changed = Callable[[str], None]


class Agents:
    """The watches, by job."""

    def __init__(
        self, launcher: Launcher, changed: Changed, inherited: Iterable[Entry] = ()
    ) -> None:
        self._launcher = launcher
        self._changed = changed
        self._inherited = {(entry.uid, entry.epoch) for entry in inherited}
        self._watches: dict[str, Watch] = {}

    def look(self, entry: Entry) -> ObservedAgent:
        """What is seen of the incarnation on record; the first look begins to watch it."""
        if not entry.epoch or entry.state in WAITING:
            return ObservedAgent()
        return self._watch(entry).observed

    def start(self, entry: Entry, advice: Advice | None = None) -> Birth | None:
        """Start the agent of the incarnation on record; None if that came to nothing."""
        return self._watch(entry).start(advice)

    def bound(self, entry: Entry) -> None:
        """What is booked for it has changed."""
        self._launcher.bound(entry)

    def company(self, entry: Entry, party: str) -> Accompany:
        """How the agent is told that its job takes turns with those of that party, or with none."""
        return self._launcher.company(entry, party)

    async def order(self, entry: Entry, message: Message) -> Status | None:
        """Have the agent do something; how the job stands then, or None if it would not."""
        return await self._watch(entry).order(message)

    async def ask(self, entry: Entry, message: Message) -> Answer | None:
        """The same, with what it answers if it would not; None where it did not answer."""
        return await self._watch(entry).ask(message)

    async def void(self, entry: Entry) -> None:
        """An incarnation that has not begun shall not begin."""
        await self._watch(entry).void()

    async def kill(self, entry: Entry) -> None:
        """All of it, at once, without asking."""
        await asyncio.to_thread(processes.end_incarnation, self._launcher.sign(entry))

    async def sweep(self, entry: Entry) -> None:
        """Its agent has ended: what it left behind goes too."""
        await self._watch(entry).sweep()

    def forget(self, uid: str) -> None:
        watch = self._watches.pop(uid, None)
        if watch is not None:
            watch.close()

    def close(self) -> None:
        """Watch no more; whatever runs goes on."""
        for uid in list(self._watches):
            self.forget(uid)

    def _watch(self, entry: Entry) -> "Watch":
        found = self._watches.get(entry.uid)
        if found is None or found.entry.epoch != entry.epoch:
            self.forget(entry.uid)
            inherited = (entry.uid, entry.epoch) in self._inherited
            found = Watch(entry, self._launcher, self._changed, inherited=inherited)
            self._watches[entry.uid] = found
        return found


class Watch:
    """Looks after one incarnation; one that is `inherited` an earlier daemon may have started."""

    def __init__(
        self, entry: Entry, launcher: Launcher, changed: Changed, *, inherited: bool
    ) -> None:
        self.entry = entry
        self.observed = ObservedAgent()
        self._launcher = launcher
        self._changed = changed
        self._sign = launcher.sign(entry)
        self._birth = entry.agent
        self._inherited = inherited
        self._process: AgentProcess | None = None
        self._voided = False
        self._job_folder = launcher.folders.job(entry.uid)
        self._folder = launcher.folders.epoch(entry).name
        self._client = AgentClient(self._job_folder, self._folder, entry.owner)
        self._answered = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._look()

    def start(self, advice: Advice | None = None) -> Birth | None:
        if self.observed.presence is not Presence.NONE:
            return self._birth
        try:
            self._process = self._launcher.start(self.entry, advice)
        except WorldError as error:
            log.warning("%s: %s", self.entry.id, error)
            self._publish(replace(self.observed, fault=_as_sentences(error)))
            return None
        self._birth = processes.birth_of(self._process.pid)
        self._answered = time.monotonic()
        self._look()
        return self._birth

    async def void(self) -> None:
        """From here on it counts as ended, unless it has begun before."""
        self._voided = await asyncio.to_thread(self._launcher.void, self.entry)
        self._look()

    async def order(self, message: Message) -> Status | None:
        answer = await self.ask(message)
        return read_status(answer.body) if answer is not None and answer.ok else None

    async def ask(self, message: Message) -> Answer | None:
        try:
            answer = await self._client.ask(message)
        except WorldError as error:
            log.debug("%s: %s", self.entry.id, error)
            return None
        if answer.ok:
            self._heard(read_status(answer.body))
        else:
            log.info("%s: %s", self.entry.id, answer.body)
        return answer

    async def sweep(self) -> None:
        """Processes first, then what they kept in memory, then what nobody can use any more."""
        kills = self._sign.cgroup.kills if self._sign.cgroup else 0
        ran = inquest.ran_seconds(self._birth)
        for _ in range(MOST_SWEEPS):
            if not await asyncio.to_thread(processes.end_incarnation, self._sign):
                break
            await asyncio.sleep(SWEEP_SECONDS)
        else:
            raise WorldError(
                f"processes of {self.entry.id} do not end",
                hint="they hang in the kernel, perhaps in a driver; the machine needs a look",
            )
        with suppress(OSError, WorldError):
            await asyncio.to_thread(self._clear_shared_memory)
        with suppress(OSError), folder_of(self._job_folder, self._folder) as folder:
            for name in (SOCKET, KEY):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
        found = await asyncio.to_thread(self._looked_into, kills)
        self._publish(replace(self.observed, swept=True, diagnosis=found, ran_seconds=ran))

    def _looked_into(self, kills: int) -> Diagnosis | None:
        """Why it failed, if it did; nothing of one that never began."""
        words = self.observed.words or KILLED
        if self._voided or words.outcome in WELL:
            return None
        status = self.observed.status
        workers = status.workers if status else ()
        pids = {self._birth.pid if self._birth else None, *(one.pid for one in workers)}
        scene = inquest.Scene(
            node=self._launcher.machine.node.id,
            words=words,
            kept=self._read(EVIDENCE),
            agent=self._birth,
            concern=self._concern(frozenset(filter(None, pids))),
            kills=kills,
        )
        return inquest.look_into(scene, self._launcher.rules)

    def _concern(self, pids: frozenset[int]) -> Concern:
        cgroup, machine = self._sign.cgroup, self._launcher.machine
        held = (machine.pci.get(device, "") for device in self.entry.devices)
        return Concern(
            pids,
            cgroup.path.name if cgroup else "",
            frozenset(filter(None, held)) if machine.has_gpus else frozenset(),
            frozenset(machine.pci.values()) if machine.has_gpus else frozenset(),
        )

    def close(self) -> None:
        self._client.close()
        if self._task is not None:
            self._task.cancel()

    # --- looking --------------------------------------------------------------------------------

    def _look(self) -> None:
        """Whether it lives. A process that is there counts before what it has written."""
        presence, fault = self._presence()
        words = self.observed.words
        if presence is Presence.ENDED and words is None:
            words = self._last_words()
        self._publish(replace(self.observed, presence=presence, words=words, fault=fault))
        if presence is Presence.ALIVE and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._follow())

    def _presence(self) -> tuple[Presence, str]:
        code = None if self._process is None else self._process.poll()
        if code == EXISTS_STATUS:  # another birth came first: that one is the agent
            self._process, self._birth, self._inherited = None, None, True
        if self._birth is None and self._inherited and not self.observed.ended:
            self._birth = processes.find_agent(self._sign)
        if self._birth is not None and processes.is_alive(self._birth):
            return Presence.ALIVE, ""
        if self._voided:
            return Presence.ENDED, self._fault(code)
        if self._has_begun():
            return Presence.ENDED, ""
        return Presence.NONE, self._fault(code)

    def _fault(self, code: int | None) -> str:
        """Why it could not start, if that was tried."""
        if self.observed.fault or code is None or code == EXISTS_STATUS:
            return self.observed.fault
        assert self._process is not None
        account, said = Account.of(self.entry.owner), self._process.said()
        error = self._launcher.failure(account, said or f"its agent ended with {code}")
        log.warning("%s: %s: %s", self.entry.id, error, said)
        return _as_sentences(error)

    def _last_words(self) -> LastWords:
        """Its own; of one that never began, why."""
        if self._voided:
            return replace(KILLED, why=self.observed.fault or "it had not begun")
        return read_last_words(self._read(OUTCOME))

    async def _follow(self) -> None:
        """Until it has ended."""
        assert self._birth is not None
        ended = asyncio.Event()
        stop_watching = _watch_end(self._birth.pid, ended.set)
        try:
            while self.observed.alive:
                if not ended.is_set():
                    await self.order(AskStatus())
                pause = POLL_SECONDS if self.observed.status else FIRST_POLL_SECONDS
                with suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), pause)
                self._look()
                if self.observed.alive:
                    silent = time.monotonic() - self._answered
                    self._publish(replace(self.observed, silent_seconds=silent))
                if ended.is_set() and self.observed.alive:  # still to be reaped
                    await asyncio.sleep(SWEEP_SECONDS)
        finally:
            stop_watching()
            self._client.close()

    def _heard(self, status: Status) -> None:
        self._answered = time.monotonic()
        self._publish(replace(self.observed, status=status, silent_seconds=0.0))

    def _publish(self, observed: ObservedAgent) -> None:
        before, self.observed = self.observed, observed
        if replace(before, silent_seconds=0.0) != replace(observed, silent_seconds=0.0):
            asyncio.get_running_loop().call_soon(self._changed, self.entry.uid)

    # --- what it has written --------------------------------------------------------------------

    def _has_begun(self) -> bool:
        try:
            with folder_of(self._job_folder, self._folder) as folder:
                os.stat(TOKEN, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return False
        return True

    def _read(self, name: str) -> bytes:
        try:
            with folder_of(self._job_folder, self._folder) as folder:
                return read_file(folder, name, self.entry.owner)
        except (OSError, WorldError) as error:
            log.warning("%s: %s cannot be read: %s", self.entry.id, name, error)
            return b""

    def _clear_shared_memory(self) -> None:
        """Snapshots of an agent that was killed; the card is the owner's to write."""
        for word in self._read(CARD).decode(errors="replace").split('"'):
            name = word.rpartition("/")[2]
            if SLOTS.fullmatch(name):
                _remove_of_owner(name, self.entry.owner)


def _as_sentences(error: WorldError) -> str:
    """What is wrong, then what to do."""
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in (str(error), error.hint) if text)


def _remove_of_owner(name: str, owner: Owner) -> None:
    path = SHARED_MEMORY / name
    found = os.lstat(path)
    if stat.S_ISDIR(found.st_mode) and found.st_uid == owner.uid:
        remove_tree(path)


def _watch_end(pid: int, ended: Callable[[], None]) -> Callable[[], None]:
    """Have the kernel tell when the process ends; what is returned stops that."""
    loop = asyncio.get_running_loop()
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        ended()
        return lambda: None

    def readable() -> None:
        loop.remove_reader(handle)
        ended()

    def stop() -> None:
        loop.remove_reader(handle)
        os.close(handle)

    loop.add_reader(handle, readable)
    return stop
