"""What is known of a failure: its class, where it happened, and the line that shows it.

Whoever reports a failure says what it knows and no more; what follows from it is `verdict`'s
business. A class says what is at fault, and with that whether another try could end otherwise.
"""

from dataclasses import dataclass
from enum import StrEnum

from weft.model.ids import NodeId


class FailureClass(StrEnum):
    """What was at fault."""

    UNKNOWN = "unknown"
    USER = "user"
    MEMORY = "memory"
    NODE = "node"
    SERVICE = "service"

    @property
    def retryable(self) -> bool:
        """Whether another try could end otherwise."""
        return self is not FailureClass.USER

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    FailureClass.UNKNOWN: "nobody knows why",
    FailureClass.USER: "its program or its job file is at fault",
    FailureClass.MEMORY: "it needed more memory than it had",
    FailureClass.NODE: "its machine failed it, or was taken away",
    FailureClass.SERVICE: "something that it needs did not answer",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure; `rank` and `node` are those of the worker that showed it first."""

    kind: FailureClass = FailureClass.UNKNOWN
    evidence: str = ""
    node: NodeId | None = None
    rank: int | None = None

    @property
    def retryable(self) -> bool:
        return self.kind.retryable

    def __str__(self) -> str:
        return self.evidence or self.kind.meaning


UNEXPLAINED = Failure()
