"""Starting an agent as the user whose job it is, so that it outlives the daemon.

The process leads a session of its own, reads nothing, writes to a log, and finds a clean
environment: what the account says, the few variables that the submitting shell told, and what the
job file asks for. Nothing of the daemon's own environment is passed on.
"""

import json
import os
import pwd
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Final

from weft.agent.leases.company import ALONE
from weft.agent.messages import Accompany
from weft.agent.settings import VAULT
from weft.agent.workers.spawn_pool import PYTHON
from weft.failure.interval import Advice
from weft.failure.rulebook import RuleBook, shipped
from weft.local.agents import bootstrap as birth
from weft.local.agents.cgroups import Cgroups
from weft.local.agents.job_processes import MARK, Sign
from weft.local.folders import AGENT_LOG, OUTCOME, TOKEN, Folders
from weft.local.machine.machine import Machine
from weft.local.reconcile import plans
from weft.local.record.entry import Entry, Owner
from weft.model.errors import WorldError
from weft.model.trial import is_trial
from weft.reconcile import trial
from weft.spec.job_file import JobSpec

DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
DEFAULT_SHELL: Final = "/bin/sh"
BIRTH: Final = Path(birth.__file__)
AGENT: Final = "weft.agent.__main__"
PLAIN: Final = re.compile(r"[\w@%+=:,./ -]+", re.ASCII)  # nothing that a shell would read otherwise


@dataclass(frozen=True, slots=True)
class Account:
    """What the system knows of a user."""

    owner: Owner
    home: str
    shell: str
    groups: tuple[int, ...]

    @classmethod
    def of(cls, owner: Owner) -> "Account":
        try:
            found = pwd.getpwuid(owner.uid)
        except KeyError:
            return cls(owner, "/", DEFAULT_SHELL, (owner.gid,))
        groups = tuple(os.getgrouplist(found.pw_name, owner.gid))
        return cls(owner, found.pw_dir or "/", found.pw_shell or DEFAULT_SHELL, groups)


@dataclass(frozen=True, slots=True)
class Launcher:
    """Starts agents of one daemon; `daemon` tells its processes from those of another one.

    `agent` is the module that becomes the agent, and `paths` is where its interpreter finds it.
    `rules` say what the ends of its processes mean.
    """

    folders: Folders
    machine: Machine
    daemon: str
    agent: str = AGENT
    paths: tuple[str, ...] = (str(BIRTH.parents[2]),)
    cgroups: Cgroups | None = None
    rules: RuleBook = field(default_factory=shipped)

    def sign(self, entry: Entry) -> Sign:
        name = f"{entry.uid}:{entry.epoch}"
        cgroup = self.cgroups.of(name) if self.cgroups else None
        return Sign(f"{self.daemon}:{name}", entry.owner.uid, cgroup)

    def start(self, entry: Entry, advice: Advice | None = None) -> subprocess.Popen[bytes]:
        """An agent for the incarnation on record, unless it has begun already.

        The advice says how often to save, where the job's owner does not.
        """
        spec = JobSpec.model_validate(entry.spec)
        process = self._birth(entry, spec, advice, void=False)
        cgroup = self.sign(entry).cgroup
        # It starts nobody before it has read its order and imported the agent.
        if cgroup and cgroup.take_in(process.pid):
            self.bound(entry)
        return process

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
        """See to it that this incarnation never begins; False if it has."""
        spec = JobSpec.model_validate(entry.spec)
        return self._birth(entry, spec, void=True).wait() != birth.EXISTS_STATUS

    def _birth(
        self, entry: Entry, spec: JobSpec, advice: Advice | None = None, *, void: bool
    ) -> subprocess.Popen[bytes]:
        account = Account.of(entry.owner)
        try:
            with _as_input(self._order(entry, spec, account, advice, void=void)) as order:
                return subprocess.Popen(
                    (sys.executable, "-I", str(BIRTH)),
                    stdin=order,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env=self._environment(entry, spec, account),
                    start_new_session=True,
                    **_switched(account),
                )
        except (OSError, subprocess.SubprocessError) as error:
            raise WorldError(
                f"no process can be started for {entry.owner.user}: {error}",
                hint="does the account still exist, and has the daemon handles left (ulimit -n)?",
            ) from error

    def _order(
        self, entry: Entry, spec: JobSpec, account: Account, advice: Advice | None, *, void: bool
    ) -> dict[str, Any]:
        folder = self.folders.epoch(entry)
        checkpoints = self._checkpoints(entry, spec)
        return {
            "folder": str(folder),
            "token": TOKEN,
            "outcome": OUTCOME,
            "log": str(folder / AGENT_LOG),
            "void": void,
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


def _switched(account: Account) -> Mapping[str, Any]:
    """Root becomes the owner; anybody else can only be who they are."""
    if os.geteuid() != 0:
        return {}
    owner = account.owner
    return {"user": owner.uid, "group": owner.gid, "extra_groups": account.groups}


def _as_input(order: Mapping[str, Any]) -> Any:  # noqa: ANN401 - an open file
    """A file in memory, so that nobody waits for whoever reads it."""
    file = os.fdopen(os.memfd_create("weft-order"), "w+b")
    file.write(json.dumps(order).encode())
    file.flush()
    file.seek(0)
    return file


def _listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
