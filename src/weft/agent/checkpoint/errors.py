"""Everything that can go wrong with a checkpoint.

CheckpointError        (a WeftError: each carries a `hint`)
├── SlotError          shared memory
│   ├── SlotTorn       not sealed: its writer died, or has never finished one
│   └── SlotBusy       somebody else is reading or writing it
├── VaultError         the folder of checkpoints
│   ├── WriterFenced   a newer incarnation of the job has been here
│   ├── StepExists     that step is on disk already, and is not overwritten
│   └── NotWritten     the disk would not take it, or the slots do not belong together
├── Damaged            not what a writer of ours left: cut, altered, swapped or hostile
└── StateError         the training program
    ├── StateMismatch  what was saved is not the state of this program
    └── UnsavableState neither a tensor nor JSON
"""

from weft.model.errors import WeftError


class CheckpointError(WeftError):
    """Base of the tree."""


class SlotError(CheckpointError):
    """Shared memory that cannot be used."""


class SlotTorn(SlotError):
    """Not sealed: its writer died, or has never finished one."""


class SlotBusy(SlotError):
    """Somebody else is reading or writing it."""


class VaultError(CheckpointError):
    """The folder of checkpoints cannot be used as asked."""


class WriterFenced(VaultError):
    """A newer incarnation of the job has been here."""


class StepExists(VaultError):
    """That step is on disk already, and is not overwritten."""


class NotWritten(VaultError):
    """The disk would not take it, or the slots do not belong together."""


class Damaged(CheckpointError):
    """Not what a writer of ours left: cut, altered, swapped or hostile."""


class StateError(CheckpointError):
    """The state of the training program."""


class StateMismatch(StateError):
    """What was saved is not the state of this program."""


class UnsavableState(StateError):
    """Neither a tensor nor JSON."""
