"""A rule: what a line means that fits it.

Rules are data. Those of Weft's own stand in `rules.toml`, and others may be added; all of them are
checked in the same way. A rule brings examples, and a book of rules is refused when one of them is
not named by its own rule.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from weft.failure.classes import FailureClass, NodeAction, Retry
from weft.failure.lines import Stream
from weft.failure.pattern import Pattern
from weft.model.errors import SpecError

MOST_NAME: Final = 60
MOST_STEPS: Final = 4_000  # of all patterns at one place: within 50 ms on a line


class Role(IntEnum):
    """How much a line says about the cause; the lowest decides."""

    ROOT = 0  # a cause
    CONFIRM = 1  # what decides where no cause is seen
    WEAK = 2  # an error that says nothing of its cause
    CASCADE = 3  # what others notice of an end
    TIE = 4  # an exit status
    HINT = 5  # it never decides


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A name for lines; what it leaves open comes from its class."""

    name: str
    says: str
    kind: FailureClass
    patterns: tuple[Pattern, ...]
    examples: tuple[str, ...]
    role: Role = Role.ROOT
    streams: frozenset[Stream] = frozenset({Stream.APP})
    node: NodeAction | None = None
    retry: Retry | None = None
    service: str = ""
    advice: str = ""

    def __post_init__(self) -> None:
        if not (self.name.isidentifier() and len(self.name) <= MOST_NAME):
            raise SpecError(
                f"rule {self.name[:MOST_NAME]!r} has no usable name",
                hint=f"use letters, digits and _, at most {MOST_NAME} of them",
            )
        if not (self.patterns and self.examples and self.streams):
            raise SpecError(
                f"rule {self.name} lacks patterns, examples or streams", hint="give one of each"
            )
        if self.kind is FailureClass.SERVICE and not self.service and self.role is not Role.TIE:
            raise SpecError(
                f"rule {self.name} does not name the service", hint="add service: <its name>"
            )

        if self.kind is FailureClass.PREEMPTED and Stream.APP in self.streams:
            raise SpecError(
                f"rule {self.name}: a program cannot say that it was preempted",
                hint="leave it to the platform: who is preempted may come back without end",
            )
        if (steps := sum(one.steps for one in self.patterns)) > MOST_STEPS:
            raise SpecError(
                f"rule {self.name} could take {steps:,.0f} steps at one place",
                hint=f"allowed are {MOST_STEPS:,d} for all its patterns: divide it",
            )

    @property
    def cure(self) -> Retry:
        return self.retry or self.kind.facts.retry

    @property
    def counsel(self) -> str:
        return self.advice or self.kind.facts.advice

    def node_action(self, stream: Stream) -> NodeAction:
        """What follows for the node: a program's own words only ever make it suspect.

        Whoever can print a line could otherwise take machines from everybody else.
        """
        action = self.kind.facts.node if self.node is None else self.node
        return min(action, NodeAction.SUSPECT) if stream is Stream.APP else action
