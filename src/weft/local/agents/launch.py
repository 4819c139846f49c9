"""Starting an agent as the user whose job it is, so that it outlives the daemon.

The process leads a session of its own, reads nothing, writes to a log, and finds a clean
environment: what the account says, the few variables that the submitting shell told, and what the
job file asks for. Nothing of the daemon's own environment is passed on.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Final

from weft.agent.leases.company import ALONE
from weft.agent.messages import Accompany
from weft.agent.settings import PER_NODE, VAULT
from weft.agent.workers.spawn_pool import PYTHON
from weft.failure.interval import Advice
from weft.failure.rulebook import RuleBook, shipped
from weft.local.agents import bootstrap as birth
from weft.local.agents.account import Account
from weft.local.agents.agent_process import AgentProcess
from weft.local.agents.cgroups import Cgroups
from weft.local.agents.job_processes import MARK, Sign
from weft.local.agents.start_failure import first_closed, needed_by, start_failure
from weft.local.folders import AGENT_LOG, OUTCOME, TOKEN, Folders
from weft.local.machine.machine import Machine
from weft.local.reconcile import plans
from weft.local.record.entry import Entry
from weft.model.errors import WorldError
from weft.model.trial import is_trial
from weft.reconcile import trial
from weft.spec.job_file import JobSpec

DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
BIRTH: Final = Path(birth.__file__)
AGENT: Final = "weft.agent.__main__"
PLAIN: Final = re.compile(r"[\w@%+=:,./ -]+", re.ASCII)  # nothing that a shell would read otherwise
SHELL: Final = "/bin/sh"
CHECK_SECONDS: Final = 60.0
# Creates the token $2 in the folder $1 unless it exists: like a start, but without the interpreter.
VOID: Final = (
    'umask 077; mkdir -p "$1" || exit 1; set -C; printf "" >"$1/$2" && exit 0; '
    f'test -e "$1/$2" -o -L "$1/$2" && exit {birth.EXISTS_STATUS}; exit 1'
)


@dataclass(frozen=True, slots=True)
class Launcher:
    """Starts agents of one daemon; `daemon` tells its processes from those of another one.

    `agent` is the module that becomes the agent, and `paths` is where its `interpreter` finds it.
    `rules` say what the ends of its processes mean.
    """

    folders: Folders
    machine: Machine
    daemon: str
    agent: str = AGENT
    paths: tuple[str, ...] = (str(BIRTH.parents[2]),)
    cgroups: Cgroups | None = None
    rules: RuleBook = field(default_factory=shipped)
    interpreter: str = field(default_factory=lambda: sys.executable)

    def sign(self, entry: Entry) -> Sign:
        name = f"{entry.uid}:{entry.epoch}"
        cgroup = self.cgroups.of(name) if self.cgroups else None
        return Sign(f"{self.daemon}:{name}", entry.owner.uid, cgroup)

    def start(self, entry: Entry, advice: Advice | None = None) -> AgentProcess:
        """An agent for the incarnation on record, unless it has begun already.

        The advice says how often to save, where the job's owner does not.
        """
        spec = JobSpec.model_validate(entry.spec)
        account = Account.of(entry.owner)
        environment = self._environment(entry, spec, account)
        process = self._process(self._order(entry, spec, account, advice), account, environment)
        cgroup = self.sign(entry).cgroup
        # It starts nobody before it has read its order and imported the agent.
        if cgroup and cgroup.take_in(process.pid):
            self.bound(entry)
        return process

    def failure(self, account: Account, said: str) -> WorldError:
        """Why a process of that account, which said this, could not become an agent."""
        needed = needed_by(self.interpreter, BIRTH)
        return start_failure(account, said, needed, self.folders.jobs)

    def check(self, account: Account) -> None:
        """Raise the error that would keep every agent of that account from starting."""
        order = {"agent": self.agent, "paths": list(self.paths), "check": True}
        process = self._process(order, account, {})
        try:
            status = process.wait(CHECK_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return
        if status:
            raise self.failure(account, process.said())
        if first_closed(account, self.folders.jobs) is not None:
            raise self.failure(account, f"'{self.folders.jobs}'")

    def bound(self, entry: Entry) -> None:
        """Let its processes use as much memory as is booked for them now."""
        cgroup = self.sign(entry).cgroup
        if cgroup and self.cgroups and self.cgroups.bounds_memory:
            cgroup.bound(sum(seat.memory_gib for seat in entry.held))

    def company(self, entry: Entry, party: str) -> Accompany:
        """Where those on its slots meet, in a folder that is there; without a party, nowhere."""
        if not party:
            return ALONE
        folder = self.folders.make_party(party, entry.owner)
        return Accompany(str(folder), tuple(sorted(entry.devices)))

    def void(self, entry: Entry) -> bool:
        """See to it that this incarnation never begins; False if it has.

        Where its owner cannot even create the token, no agent of theirs can either.
        """
        folder = str(self.folders.epoch(entry))
        account = Account.of(entry.owner)
        try:
            voided = subprocess.run(
                (SHELL, "-c", VOID, SHELL, folder, TOKEN),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": DEFAULT_PATH},
                check=False,
                **account.switch,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise _no_process(account, error) from error
        return voided.returncode != birth.EXISTS_STATUS

    def _process(
        self, order: Mapping[str, Any], account: Account, environment: Mapping[str, str]
    ) -> AgentProcess:
        """The interpreter under that account, with an order to become an agent."""
        try:
            with _as_input(order) as given:
                command = (self.interpreter, "-I", str(BIRTH))
                return AgentProcess(command, account, environment, given)
        except (PermissionError, FileNotFoundError, NotADirectoryError) as error:
            raise self.failure(account, _words(error)) from error
        except (OSError, subprocess.SubprocessError) as error:
            raise _no_process(account, error) from error

    def _order(
        self, entry: Entry, spec: JobSpec, account: Account, advice: Advice | None
    ) -> dict[str, Any]:
        folder = self.folders.epoch(entry)
        checkpoints = self._checkpoints(entry, spec)
        return {
            "folder": str(folder),
            "token": TOKEN,
            "outcome": OUTCOME,
            "log": str(folder / AGENT_LOG),
            "workdir": spec.workdir or entry.origin.workdir or account.home,
            "need": [volume.path for volume in spec.volumes],
            "make": [checkpoints],
            "agent": self.agent,
            "paths": list(self.paths),
            "arguments": self._arguments(entry, spec, folder, checkpoints, advice),
        }

    def _arguments(
        self,
        entry: Entry,
        spec: JobSpec,
        folder: Path,
        checkpoints: str,
        advice: Advice | None = None,
    ) -> Sequence[str]:
        """What the agent is told on its command line."""
        devices = sorted(entry.devices) if self.machine.has_gpus else ()
        cpus = self.machine.cpus_of(sorted(entry.devices))
        options: dict[str, object] = {
            **_saving(spec, advice),
            "--workers": max(entry.width, 1),
            "--nproc-per-node": "" if spec.starts_per_gpu else PER_NODE,
            "--job": entry.name,
            "--incarnation": entry.epoch,
            "--folder": folder,
            "--checkpoints": f"{checkpoints}/{VAULT}",
            "--grace": spec.grace_seconds,
            "--devices": _listed(devices),
            "--cpus": _listed(cpus),
            "--company": self._meeting(entry),
            "--plan": "" if plans.is_counted(entry.plan) else entry.plan,
        }
        given = [f"{option}={value}" for option, value in options.items() if value != ""]
        line = plans.command(spec, entry.plan, max(entry.width, 1))
        return ("run", *given, "--", *command_of(line))

    def _meeting(self, entry: Entry) -> str:
        """Of a job that joined others; who is joined while it runs is told then."""
        company = self.company(entry, entry.party)
        return f"{company.folder}:{_listed(company.gpus)}" if company.folder else ""

    def _environment(self, entry: Entry, spec: JobSpec, account: Account) -> dict[str, str]:
        return {
            "PATH": DEFAULT_PATH,
            "LANG": "C.UTF-8",
            **entry.origin.environment,
            "HOME": account.home,
            "USER": account.owner.user,
            "LOGNAME": account.owner.user,
            "SHELL": account.shell,
            **spec.env,
            "WEFT_CHECKPOINT_PATH": self._checkpoints(entry, spec),
            **({trial.VARIABLE: "1"} if is_trial(entry.id) else {}),
            MARK: self.sign(entry).text,
        }

    def _checkpoints(self, entry: Entry, spec: JobSpec) -> str:
        """A script may keep its own files there; the agent's lie below."""
        named = spec.checkpoint.path if spec.checkpoint else None
        return named or str(self.folders.checkpoints(entry))


def command_of(run: str) -> tuple[str, ...]:
    """A shell reads the line, unless it would do nothing but start a Python script.

    Such a script's workers can be forked from a process that has imported torch already, so that
    a job which grows does not wait for seconds, nor its neighbours for the processors.
    """
    words = run.split()
    if words[:1] == ["exec"]:
        words = words[1:]
    plain = PLAIN.fullmatch(run.strip()) is not None and len(words) > 1
    if plain and PYTHON.fullmatch(PurePath(words[0]).name) and words[1].endswith(".py"):
        return tuple(words)
    return ("/bin/sh", "-c", run)


def _saving(spec: JobSpec, advice: Advice | None) -> dict[str, object]:
    """The owner's word goes before what is advised."""
    fixed = spec.checkpoint is not None and spec.checkpoint.every is not None
    if fixed or advice is None:
        return {"--every": spec.checkpoint_seconds}
    return {"--save-advice": advice}


def _no_process(account: Account, error: Exception) -> WorldError:
    return WorldError(
        f"cannot start as {account.owner.user}: {_words(error)}",
        hint="ask the administrator whether the account may have more processes and open files, "
        "and whether the machine has memory left",
    )


def _words(error: Exception) -> str:
    if not isinstance(error, OSError):
        return str(error)
    named = f": '{error.filename}'" if error.filename else ""
    return f"{error.strerror or error}{named}"


def _as_input(order: Mapping[str, Any]) -> Any:  # noqa: ANN401 - an open file
    """A file in memory, so that nobody waits for whoever reads it."""
    file = os.fdopen(os.memfd_create("weft-order"), "w+b")
    file.write(json.dumps(order).encode())
    file.flush()
    file.seek(0)
    return file


def _listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
