"""What a driver may ask of an agent; some of it the agent passes on to its workers.

driver → agent   Resize  Accompany  Drain  Save  Kill  Status
agent → worker   Accompany  Drain  Save
head → follower  Kill
"""

from dataclasses import dataclass

from weft.agent.messages.message import Members, Message


@dataclass(frozen=True, slots=True)
class Resize(Message):
    """Train on that many workers; the pools of devices and processors are replaced where given."""

    width: int
    devices: Members = ()
    cpus: Members = ()
    plan: str = ""  # by which they hold the model, if by another one than now
    beside: bool = True  # whether there is memory for workers of both plans at once


@dataclass(frozen=True, slots=True)
class Accompany(Message):
    """Jobs that meet in this folder take turns on these GPUs; an empty one means no company."""

    folder: str
    gpus: Members = ()


@dataclass(frozen=True, slots=True)
class Drain(Message):
    """Leave together at the next agreed boundary, with a snapshot."""

    grace_seconds: float


@dataclass(frozen=True, slots=True)
class Save(Message):
    """Take a snapshot at the next boundary."""


@dataclass(frozen=True, slots=True)
class Kill(Message):
    """Send a signal to a worker: by a follower for its head, or by a driver to see what happens."""

    worker: int
    signal: int


@dataclass(frozen=True, slots=True)
class Status(Message):
    """Tell how the job stands."""
