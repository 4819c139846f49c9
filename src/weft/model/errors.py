"""Everything that Weft raises on purpose.

WeftError
├── SpecError             what a person wrote cannot be used as written
│   ├── UnknownName       a recipe, queue, node or field that does not exist; a job: `api.errors`
│   ├── InfeasibleSpec    no state of this cluster could ever satisfy it
│   └── TraceFault        a row of a workload that cannot be read as it stands
├── ProtocolError         the world and the brain no longer speak of the same thing
│   ├── IllegalTransition a job was to go where its lifecycle has no edge
│   ├── BadEvent          an event that cannot be; nothing of it was taken in
│   └── BrokenOff         a brain that fell over an event before this one
├── WorldError            a real world could not be reached, or would not do what it was asked
│   ├── ApiError          what a Kubernetes API server answered (the branches: `kube.client.errors`)
│   ├── NoAccess          no kubeconfig or account to reach it with (`kube.client.errors`)
│   ├── Forbidden         it is somebody else's (this and the next two: `api.errors`)
│   ├── Taken             the name is in use
│   ├── NoAnswer          nobody listens there, or whoever did broke off
│   └── NotLeading        another replica may be leading: nothing may be written
├── Refusal               what a worker's report is answered with (`kube.reports.refusal`)
├── JournalError          a journal that cannot be read, or that replays to something else
└── InvariantBreach       a promise of the scheduler is broken: a defect in Weft itself

Each carries a `hint`: the one thing to try next.
"""


class WeftError(Exception):
    """Base of the tree; `hint` tells what to do about it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")


class SpecError(WeftError):
    """What a person wrote cannot be used as written."""


class UnknownName(SpecError):
    """A recipe, queue, node or field that does not exist."""


class InfeasibleSpec(SpecError):
    """No state of this cluster could ever satisfy it."""


class TraceFault(SpecError):
    """A row of a workload that cannot be read as it stands."""


class ProtocolError(WeftError):
    """The world and the brain no longer speak of the same thing."""


class IllegalTransition(ProtocolError):
    """A job was to go where its lifecycle has no edge."""


class BadEvent(ProtocolError):
    """An event that cannot be; nothing of it was taken in."""


class BrokenOff(ProtocolError):
    """A brain that fell over an event before this one, and knows no more what holds."""


class WorldError(WeftError):
    """A real world could not be reached, or would not do what it was asked."""


class NotLeading(WorldError):
    """Another replica may be leading: nothing may be written."""


class JournalError(WeftError):
    """A journal that cannot be read, or that replays to something else."""


class InvariantBreach(WeftError):
    """A promise of the scheduler is broken: a defect in Weft itself."""
