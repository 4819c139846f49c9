"""What is known of a failure: its class, where it happened, and the line that shows it.

Whoever reports a failure says what it knows and no more; what follows from it is `verdict`'s
business.
"""

from dataclasses import dataclass

from weft.failure.classes import FailureClass
from weft.model.ids import NodeId

__all__ = ["UNEXPLAINED", "Failure", "FailureClass"]


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
