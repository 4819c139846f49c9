"""The daemon as a process of its own, so that it can be killed as a machine kills it.

It is a fork of the test's own process: what it needs is imported already, and a start costs little.
"""

import asyncio
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tests.local.users import open_to_others
from tests.waiting import HANG_SECONDS, until
from weft.agent.settings import VAULT
from weft.api.backend import Farewell, Origin, Selection
from weft.api.client import Client
from weft.api.peer import user_name
from weft.crash import _PLAN, CrashPlan
from weft.failure.health import Health
from weft.local.agents.job_processes import MARK
from weft.local.daemon import Daemon
from weft.local.folders import Folders, remove_tree
from weft.local.journals import Journals
from weft.local.options import LocalOptions
from weft.local.reconcile.step import Rules
from weft.local.record.entry import Entry, Happening
from weft.local.record.health import recalled
from weft.local.record.store import Store
from weft.model.errors import WorldError

RULES: Final = Rules(kill_after_seconds=1.0)
RECIPE: Final = "fair(spacing=0.1, min_run=0.0)"


class Lab:
    """One folder with its daemon, and what a user does there."""

    def __init__(
        self,
        folder: Path,
        *,
        slots: int = 2,
        recipe: str = RECIPE,
        agent: str = "tests.local.model_agent",
        for_all: bool = False,
        **options: Any,
    ) -> None:
        self.folder = folder
        self.socket = folder / "weft.sock"
        self.client = Client(self.socket)
        self.log = folder / "daemon.log"
        options.setdefault("gang_probe_hours", 0.0)  # it loads torch, twice
        self.options = LocalOptions(
            folder=folder,
            socket=self.socket,
            slots=slots,
            recipe=recipe,
            backoff_seconds=0.2,
            **options,
        )
        self._agent = agent
        self._for_all = for_all
        self._reading = threading.Lock()
        self.status: int | None = None
        self.pid = 0

    def start(self, crash: str = "", sabotage: Callable[[], None] | None = None) -> None:
        """Until it answers, or has died of its crash; `sabotage` is done to it before."""
        self.status = None
        with self._reading:  # an open database does not survive a fork
            self.pid = forked(lambda: self._serve(crash, sabotage), self.log)
        wait_until(lambda: not self.alive or self._answers(), "the daemon to answer", self.log)

    @property
    def alive(self) -> bool:
        if self.pid and self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        return bool(self.pid) and self.status is None

    def kill(self) -> None:
        """As if it had never been."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def down(self, farewell: Farewell) -> None:
        self.client.stop(farewell)
        self.wait_until_dead()

    def wait_until_dead(self, seconds: float = HANG_SECONDS) -> int:
        wait_until(lambda: not self.alive, "the daemon to end", self.log, seconds)
        assert self.status is not None
        return self.status

    def submit(self, name: str, run: str, gpus: int | str = 1, **spec: Any) -> None:
        asked = {"run": run, "resources": {"gpus": gpus}, **spec}
        self.client.submit(asked, name, origin=Origin(str(self.folder)))

    def let_finish(self, name: str) -> None:
        """A model agent trains until somebody says that it is enough."""
        vault = self.folders().checkpoints(self.entry(name)) / VAULT
        vault.mkdir(parents=True, exist_ok=True)
        (vault / "enough").touch()

    def state(self, name: str) -> str:
        return self.client.job(name).detail.line.state

    def states(self) -> dict[str, str]:
        return {line.name: line.state for line in self.client.jobs(Selection()).jobs}

    def wait_for(self, name: str, *states: str, seconds: float = HANG_SECONDS) -> None:
        wait_until(lambda: self._state(name) in states, f"{name} to be {states}", self.log, seconds)
        self._check_slots()

    def entry(self, name: str, user: str = "") -> Entry:
        """What is on record, read beside the daemon."""
        with self._store() as store:
            found = store.newest(user or _me(), name)
        assert found is not None, name
        return found

    def history(self, name: str, user: str = "") -> list[Happening]:
        """What happened to it, the first thing first."""
        with self._store() as store:
            entry = store.newest(user or _me(), name)
            assert entry is not None, name
            return store.history(entry.uid)[::-1]

    def health(self) -> Health:
        """What is on record of nodes and services."""
        with self._store() as store:
            return recalled(store)

    def folders(self) -> Folders:
        return Folders(self.folder)

    def leftovers(self) -> list[str]:
        """What is still there of jobs, besides their folders."""
        with self._store() as store:
            instance = store.setting("instance", "")
        found = [f"process {pid}" for pid in marked(f"{instance}:")]
        found += [str(path) for path in self.folder.glob("jobs/*/*/agent.sock")]
        found += [str(path) for path in self.folder.glob("jobs/*/*/key")]
        return found + [str(path) for path in self.slots_in_memory() if path.exists()]

    def slots_in_memory(self) -> list[Path]:
        """Where agents of this lab kept snapshots."""
        found = []
        for card in self.folder.glob("jobs/*/*/agent.json"):
            with suppress(OSError, ValueError, KeyError):
                found.append(Path(json.loads(card.read_text())["slots"]))
        return found

    @contextmanager
    def _store(self) -> Iterator[Store]:
        with self._reading:
            store = Store.at(self.folder / "weft.db")
            try:
                yield store
            finally:
                store.close()

    def _check_slots(self) -> None:
        """Whatever a test is about: nobody has a slot of another's who takes no turns with it."""
        with self._store() as store:
            entries = store.active()
        holders: dict[int, Entry] = {}
        for entry in entries:
            for slot in entry.devices:
                other = holders.setdefault(slot, entry)
                assert entry.party_name == other.party_name, f"{entry.id} sits on {other.id}"

    def _state(self, name: str) -> str:
        try:
            return self.state(name)
        except WorldError:
            return ""

    def _answers(self) -> bool:
        try:
            self.client.queues()
        except WorldError:
            return False
        return True

    def _end(self, number: signal.Signals) -> None:
        if self.alive:
            os.kill(self.pid, number)
        self.wait_until_dead()

    def _serve(self, crash: str, sabotage: Callable[[], None] | None) -> None:
        plan = CrashPlan(crash)
        _PLAN.label, _PLAN.left = plan.label, plan.left
        if self._for_all:
            open_to_others()
        if sabotage is not None:
            sabotage()
        journals = Journals(self.folder / "journal.jsonl")
        asyncio.run(_served(self.options, journals, self._agent))


async def _served(options: LocalOptions, journals: Journals, agent: str) -> None:
    await Daemon(options, journals, agent=agent, rules=RULES).serve()


def forked(run: Callable[[], None], log: Path) -> int:
    """The number of a process that does this, and says what it has to say into a log."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of a test runner do no harm
        pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        _speak_into(log)
        run()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _speak_into(log: Path) -> None:
    handle = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
    for stream in (1, 2):
        os.dup2(handle, stream)
    sys.stdout = sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    os.chdir("/")
    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr, force=True)


@contextmanager
def a_lab(**given: Any) -> Iterator[Lab]:
    """In a folder whose path is short enough for sockets; nothing of it is left afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="wl-"))
    folder.chmod(0o755)
    lab = Lab(folder, **given)
    try:
        yield lab
    finally:
        if lab.alive:
            lab.kill()
        if (folder / "weft.db").exists():
            for line in lab.leftovers():
                if line.startswith("process "):
                    with suppress(ProcessLookupError):
                        os.kill(int(line.split()[1]), signal.SIGKILL)
        for path in lab.slots_in_memory():
            shutil.rmtree(path, ignore_errors=True)
        remove_tree(folder)


def marked(prefix: str) -> list[int]:
    """Living processes of any incarnation of one daemon."""
    wanted = f"{MARK}={prefix}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            variables = (path / "environ").read_bytes().split(b"\0")
            state = (path / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state not in "ZX" and any(variable.startswith(wanted) for variable in variables):
            found.append(int(path.name))
    return found


def wait_until(
    true: Callable[[], bool],
    what: str,
    log: Path | None = None,
    seconds: float = HANG_SECONDS,
) -> None:
    until(true, what, state=lambda: _said(log), seconds=seconds, poll_seconds=0.02)


def _said(log: Path | None) -> str:
    """The last words of a daemon and of its agents."""
    if log is None:
        return ""
    files = [log, *sorted(log.parent.glob("jobs/*/*/agent.log"))[-4:]]
    return "\n".join(f"--- {path}\n{_end_of(path)}" for path in files if path.exists())


def _end_of(path: Path) -> str:
    """A hostile user's log may be larger than memory."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - 2500, 0))
        return file.read(2500).decode(errors="replace")


def _me() -> str:
    return user_name(os.getuid())
