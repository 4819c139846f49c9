"""Classes of failure: whose fault, what a retry can do about it, and what to tell the owner.

A class is coarser than the rule that found it: some eighty rules lead to twenty classes. What
follows from a class stands beside its name and nowhere else, so that a class is added in one place.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Fault(StrEnum):
    """Whose fault it is."""

    OWNER = "owner"
    MACHINE = "machine"
    NETWORK = "network"
    SERVICE = "service"
    SCHEDULER = "scheduler"
    NOBODY = "nobody"
    UNKNOWN = "unknown"


class Retry(StrEnum):
    """What may cure it."""

    STOP = "stop"  # nothing: the same again, anywhere
    CHANGE = "change"  # once more with what the job itself offers to change: memory, batch, limit
    CONFIRM = "confirm"  # one run to see whether it comes again, on other nodes if there are some
    BACK_OFF = "back off"  # later, anywhere
    MOVE = "move"  # at once, without the node at fault
    ROLL_BACK = "roll back"  # from the checkpoint before the last one
    REQUEUE = "requeue"  # it has not failed: it goes on where it stood


class NodeAction(IntEnum):
    """What follows for the node that is blamed, from nothing to the end of its service."""

    NONE = 0
    SUSPECT = 1  # remembered: several jobs and users make a case of it
    CORDON = 2  # nothing new there until a check has passed
    DRAIN = 3  # and what runs there leaves
    QUARANTINE = 4  # and nobody comes back before it is repaired


@dataclass(frozen=True, slots=True)
class Facts:
    """All that follows from a class; `advice` is for the owner of the job.

    `given_up` is it for one that is not tried again, where other advice holds then.
    """

    fault: Fault
    retry: Retry
    node: NodeAction
    meaning: str
    advice: str
    given_up: str = ""


class FailureClass(StrEnum):
    """What was at fault."""

    UNKNOWN = "unknown"
    USER = "user"
    ENVIRONMENT = "environment"
    INPUT = "input"
    ACCESS = "access"
    MEMORY = "memory"
    GPU_MEMORY = "gpu memory"
    LIMIT = "limit"
    DIVERGED = "diverged"
    CHECKPOINT = "checkpoint"
    CRASH = "crash"
    HANG = "hang"
    PEER = "peer"
    START = "start"
    GPU = "gpu"
    NODE = "node"
    NETWORK = "network"
    SERVICE = "service"
    PREEMPTED = "preempted"
    CANCELLED = "cancelled"

    @property
    def facts(self) -> Facts:
        return _FACTS[self]

    @property
    def retryable(self) -> bool:
        """Whether another try could end otherwise."""
        return self.facts.retry is not Retry.STOP

    @property
    def meaning(self) -> str:
        return self.facts.meaning


_FACTS = {
    FailureClass.UNKNOWN: Facts(
        Fault.UNKNOWN,
        Retry.CONFIRM,
        NodeAction.NONE,
        "nobody knows why",
        "read the end of the rank's log; a rule of your own can name it next time",
    ),
    FailureClass.USER: Facts(
        Fault.OWNER,
        Retry.STOP,
        NodeAction.NONE,
        "its program or its job file is at fault",
        "mend the program at the line shown and submit it again",
    ),
    FailureClass.ENVIRONMENT: Facts(
        Fault.OWNER,
        Retry.STOP,
        NodeAction.NONE,
        "its image or its libraries do not fit",
        "add what is missing to the image, or use versions that fit the driver",
    ),
    FailureClass.INPUT: Facts(
        Fault.OWNER,
        Retry.CONFIRM,
        NodeAction.NONE,
        "its data are missing or damaged",
        "check the file named in the line, and that every node sees it",
    ),
    FailureClass.ACCESS: Facts(
        Fault.OWNER,
        Retry.STOP,
        NodeAction.NONE,
        "it was not allowed to do what it tried",
        "renew the credentials, or ask for the right or the quota that the line names",
    ),
    FailureClass.MEMORY: Facts(
        Fault.OWNER,
        Retry.CHANGE,
        NodeAction.NONE,
        "it needed more memory than it had",
        "ask for more memory, or load less at once (fewer loader processes, smaller caches)",
    ),
    FailureClass.GPU_MEMORY: Facts(
        Fault.OWNER,
        Retry.CHANGE,
        NodeAction.NONE,
        "it needed more GPU memory than there is",
        "use a smaller micro-batch, more GPUs, sharding or recomputation",
    ),
    FailureClass.LIMIT: Facts(
        Fault.OWNER,
        Retry.CHANGE,
        NodeAction.NONE,
        "it came up against a limit of its own",
        "raise the limit that the line names, or need less of it",
    ),
    FailureClass.DIVERGED: Facts(
        Fault.OWNER,
        Retry.ROLL_BACK,
        NodeAction.NONE,
        "its numbers are no longer finite",
        "lower the learning rate, clip gradients, or look at the batch where it began",
    ),
    FailureClass.CHECKPOINT: Facts(
        Fault.SERVICE,
        Retry.ROLL_BACK,
        NodeAction.NONE,
        "its last checkpoint cannot be read",
        "an older checkpoint is tried; check the storage that holds them",
        "check the storage that holds its checkpoints, then submit it again",
    ),
    FailureClass.CRASH: Facts(
        Fault.UNKNOWN,
        Retry.CONFIRM,
        NodeAction.SUSPECT,
        "a process crashed in native code",
        "if it comes again elsewhere, look at native extensions and versions",
    ),
    FailureClass.HANG: Facts(
        Fault.UNKNOWN,
        Retry.MOVE,
        NodeAction.SUSPECT,
        "it made no progress any more",
        "look at the stacks that were taken: which rank is not in the collective?",
    ),
    FailureClass.PEER: Facts(
        Fault.UNKNOWN,
        Retry.MOVE,
        NodeAction.SUSPECT,
        "a worker lost touch with another one",
        "look for the rank that ended first: the others only noticed",
    ),
    FailureClass.START: Facts(
        Fault.SCHEDULER,
        Retry.BACK_OFF,
        NodeAction.NONE,
        "its workers did not find together",
        "nothing to do at first; if it stays so, check ports and names between the nodes",
        "check ports and names between the nodes, then submit it again",
    ),
    FailureClass.GPU: Facts(
        Fault.MACHINE,
        Retry.MOVE,
        NodeAction.DRAIN,
        "a GPU or its driver failed",
        "nothing to do: it goes on elsewhere",
        "submit it again: it may get another node",
    ),
    FailureClass.NODE: Facts(
        Fault.MACHINE,
        Retry.MOVE,
        NodeAction.CORDON,
        "its machine failed it, or was taken away",
        "nothing to do: it goes on elsewhere",
        "submit it again: it may get another node",
    ),
    FailureClass.NETWORK: Facts(
        Fault.NETWORK,
        Retry.MOVE,
        NodeAction.SUSPECT,
        "the network between its nodes failed",
        "nothing to do: it goes on elsewhere",
        "submit it again: it may get another node",
    ),
    FailureClass.SERVICE: Facts(
        Fault.SERVICE,
        Retry.BACK_OFF,
        NodeAction.NONE,
        "something that it needs did not answer",
        "nothing to do: it is tried again when the service answers",
        "submit it again when the service answers",
    ),
    FailureClass.PREEMPTED: Facts(
        Fault.SCHEDULER,
        Retry.REQUEUE,
        NodeAction.NONE,
        "it had to make room",
        "nothing to do: it waits where it stood in the queue",
    ),
    FailureClass.CANCELLED: Facts(
        Fault.NOBODY,
        Retry.STOP,
        NodeAction.NONE,
        "somebody ended it",
        "nothing to do",
    ),
}
