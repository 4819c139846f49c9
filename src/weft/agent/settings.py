"""What an agent is told when it is started: by a command line, or by the pod that it runs in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from weft.agent.checkpoint.cadence import Cadence
from weft.agent.checkpoint.home import Place
from weft.agent.checkpoint.vault import Vault
from weft.agent.coordination.limits import Limits
from weft.agent.leases.company import Company, parse_company
from weft.agent.plan import Plan, parse_plan
from weft.agent.reports.operator_client import Destination
from weft.agent.workers.cpus import Cpus
from weft.agent.workers.places import HEAD_SEAT
from weft.agent.workers.program import starts_its_own
from weft.failure.interval import Advice
from weft.model.errors import SpecError

NPROC_PER_NODE: Final = "WEFT_NPROC_PER_NODE"
PER_NODE: Final = "1"
MASTER_PORT: Final = 29500  # where the ranks of a plain script meet, on the head's pod
VAULT: Final = "weft"  # below the folder for checkpoints, which a script may use for its own
DEFAULT_GRACE_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """What a pod is told of itself and of the job's range."""

    seat: int
    gpus: int
    host: str
    least_gpus: int = 1
    most_gpus: int | None = None
    destination: Destination | None = None

    @property
    def is_head(self) -> bool:
        return self.seat == HEAD_SEAT


@dataclass(frozen=True, slots=True)
class Settings:
    """What an agent is told.

    `per_gpu` starts the command for each of the `width` GPUs, else once on each node.
    """

    command: tuple[str, ...]
    width: int
    per_gpu: bool = True
    job: str = "job"
    incarnation: int = 1
    shard: int = 1
    split: Plan | None = None  # where more is said of it than a number of shards
    folder: Path | None = None
    checkpoints: Place | None = None
    save_every_seconds: float = 0.0
    save_advice: Advice | None = None  # where nobody fixed how often
    grace_seconds: float = DEFAULT_GRACE_SECONDS
    threads: int = 1
    devices: tuple[int, ...] = ()
    uuids: Mapping[int, str] = field(default_factory=dict)
    cpus: Cpus = ()
    attended: bool = False  # somebody sits at its terminal, and it ends with that
    pod: Pod | None = None
    company: Company | None = None
    meeting: Company | None = None  # where others come and go, as a claim of shared GPUs has it
    limits: Limits = field(default_factory=Limits)

    @property
    def once_per_seat(self) -> bool:
        """Whether one process has all GPUs of a seat; a launcher starts the others itself."""
        return not self.per_gpu or starts_its_own(self.command)

    @property
    def plan(self) -> Plan:
        """The plan that the job begins with."""
        return self.split or Plan(shard=self.shard)

    @property
    def cadence(self) -> Cadence:
        return Cadence(self.save_every_seconds, self.save_advice)

    @property
    def shared_vault(self) -> Vault | None:
        """Where each pod writes what its workers have saved; None where nothing is shared."""
        if not isinstance(self.checkpoints, Path) or self.pod is None:
            return None
        return Vault(self.checkpoints, self.job, self.incarnation)


def from_environment(command: tuple[str, ...], variables: Mapping[str, str]) -> Settings:
    """As the pod is told by its variables."""
    told = _Told(variables)
    seat = told.count("WEFT_SEAT", HEAD_SEAT, least=0)
    gpus = told.count("WEFT_SEAT_GPUS", 1)
    width = told.count("WEFT_WIDTH", gpus)
    path = variables.get("WEFT_CHECKPOINT_PATH")
    folder = variables.get("WEFT_FOLDER")
    destination = Destination.from_environment(variables)
    if destination is None and (seat != HEAD_SEAT or width > gpus):
        raise SpecError(
            "this pod does not know where to meet the others",
            hint="WEFT_REPORT_URL and WEFT_TOKEN_FILE tell it",
        )
    return Settings(
        command=command,
        width=width,
        per_gpu=variables.get(NPROC_PER_NODE) != PER_NODE,
        job=variables.get("WEFT_JOB", "job"),
        incarnation=told.count("WEFT_EPOCH", 1, least=0),
        shard=told.count("WEFT_SHARD", 1),
        split=parse_plan(begin) if (begin := variables.get("WEFT_BEGIN_PLAN")) else None,
        folder=Path(folder) if folder else None,
        checkpoints=_folder(path) / VAULT if path else None,
        save_every_seconds=told.seconds("WEFT_CHECKPOINT_EVERY_SECONDS", 0.0),
        save_advice=_advice(variables.get("WEFT_SAVE_ADVICE", "")),
        grace_seconds=told.seconds("WEFT_GRACE_SECONDS", DEFAULT_GRACE_SECONDS),
        threads=told.count("OMP_NUM_THREADS", 1),
        company=parse_company(variables.get("WEFT_COMPANY", ""), tuple(range(gpus))),
        meeting=parse_company(variables.get("WEFT_MEETING", ""), tuple(range(gpus))),
        pod=Pod(
            seat=seat,
            gpus=gpus,
            host=variables.get("WEFT_POD_IP") or "127.0.0.1",
            least_gpus=told.count("WEFT_MIN_GPUS", 1),
            most_gpus=told.count("WEFT_MAX_GPUS", 0, least=0) or None,
            destination=destination,
        ),
    )


def _advice(text: str) -> Advice | None:
    return Advice.parse(text) if text else None


def _folder(path: str) -> Path:
    if "://" in path:
        raise SpecError(
            f"WEFT_CHECKPOINT_PATH is {path}",
            hint="pods share a folder, in which workers of one begin from what another has saved",
        )
    return Path(path)


@dataclass(frozen=True, slots=True)
class _Told:
    """Variables as numbers."""

    variables: Mapping[str, str]

    def count(self, name: str, otherwise: int, *, least: int = 1) -> int:
        text = self.variables.get(name, "")
        if not text:
            return otherwise
        if not text.isdecimal() or int(text) < least:
            raise SpecError(f"{name} is {text!r}", hint=f"it is a number, at least {least}")
        return int(text)

    def seconds(self, name: str, otherwise: float) -> float:
        text = self.variables.get(name, "")
        try:
            return float(text) if text else otherwise
        except ValueError as error:
            raise SpecError(f"{name} is {text!r}", hint="it is a number of seconds") from error
