"""A notice: something that happened to a job, for somebody outside to hear of."""

from dataclasses import dataclass
from enum import StrEnum

from weft.failure.lines import shown
from weft.view.failures import FailureLine


class Occasion(StrEnum):
    """When somebody may want to be told."""

    STARTED = "started"
    PREEMPTED = "preempted"
    FAILED = "failed"  # a try; whether it was the last one is in its words
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What happened; `number` tells it from all others, so that nobody has to hear it twice."""

    occasion: Occasion
    namespace: str
    job: str
    queue: str
    at_seconds: float
    number: str
    text: str
    state: str = ""
    failure: FailureLine | None = None

    @property
    def title(self) -> str:
        """In a line, with nothing in it that steers a terminal or adds a header."""
        return shown(f"{self.namespace}/{self.job} {self.occasion.value}: {self.text}")

    @property
    def details(self) -> tuple[str, ...]:
        """What to know of a failure."""
        told = self.failure
        if told is None:
            return ()
        lines = (
            f"{told.says} [{told.kind}: {told.rule}]",
            f"evidence: {told.line}" if told.line else "",
            f"done: {told.did}" if told.did else "",
            f"to do: {told.advice}",
            f"log: {told.log}",
        )
        return tuple(shown(line) for line in lines if line)
