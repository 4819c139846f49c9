"""What the brain wants done. Acting twice on an instruction is the same as acting once.

Every instruction about a job carries the job's epoch, and its id is made of both: a world that
sees a known id again answers with the same outcome and starts nothing new.
"""

from dataclasses import dataclass
from typing import ClassVar

from weft.brain.event import Verb
from weft.model.decision import Assignment
from weft.model.ids import InstructionId, JobId, NodeId


@dataclass(frozen=True, slots=True)
class JobInstruction:
    """Base of those that speak of one job in one epoch."""

    verb: ClassVar[Verb]
    job: JobId
    epoch: int

    @property
    def id(self) -> InstructionId:
        return InstructionId(f"{self.job}/{self.epoch}/{self.verb}")


@dataclass(frozen=True, slots=True)
class Start(JobInstruction):
    """Start this incarnation on these seats, which are free."""

    verb: ClassVar[Verb] = Verb.START
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class Resize(JobInstruction):
    """Change the width while it trains: seats are added, or taken away, and the others stay.

    The epoch stays too; `serial` counts the resizes within it.
    """

    verb: ClassVar[Verb] = Verb.RESIZE
    assignment: Assignment
    serial: int

    @property
    def id(self) -> InstructionId:
        return InstructionId(f"{self.job}/{self.epoch}/{self.verb}/{self.serial}")


@dataclass(frozen=True, slots=True)
class Feed(JobInstruction):
    """Let each GPU have so much of its node beyond what its seat says, while it trains.

    Nothing else changes, and training does not stop. `serial` counts the feedings of an epoch.
    """

    verb: ClassVar[Verb] = Verb.FEED
    cores: float
    memory_gib: float
    serial: int

    @property
    def id(self) -> InstructionId:
        return InstructionId(f"{self.job}/{self.epoch}/{self.verb}/{self.serial}")


@dataclass(frozen=True, slots=True)
class Preempt(JobInstruction):
    """Save, stop and give up the seats; the job waits again."""

    verb: ClassVar[Verb] = Verb.PREEMPT
    beneficiary: JobId


@dataclass(frozen=True, slots=True)
class Stop(JobInstruction):
    """End this incarnation and give up the seats."""

    verb: ClassVar[Verb] = Verb.STOP
    why: str


@dataclass(frozen=True, slots=True)
class Probe(JobInstruction):
    """Look at this job and report what there is."""

    verb: ClassVar[Verb] = Verb.PROBE


@dataclass(frozen=True, slots=True)
class Wake:
    """Send a tick at this time."""

    verb: ClassVar[Verb] = Verb.WAKE
    at: float


@dataclass(frozen=True, slots=True)
class CheckNode:
    """Check a node on which nothing starts, and tell whether it passes (`NodeChecked`)."""

    verb: ClassVar[Verb] = Verb.CHECK
    node: NodeId
    why: str


@dataclass(frozen=True, slots=True)
class AskService:
    """Ask whether a service answers, and tell (`ServiceAsked`); who cannot ask says nothing."""

    verb: ClassVar[Verb] = Verb.ASK
    service: str


Instruction = Start | Resize | Feed | Preempt | Stop | Probe | Wake | CheckNode | AskService
