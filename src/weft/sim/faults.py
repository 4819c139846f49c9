"""Faults to inject, all from the seed: what breaks, and how messages go astray.

Rates are per what they name; the plan of node losses, cancellations and quota edits is drawn
before the run starts, message faults as messages are sent.
"""

from dataclasses import dataclass, field, replace
from typing import Self

from weft.brain.event import Event
from weft.sim.troubles import NO_TROUBLES, Troubles


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How likely each fault is; `planned` are events that simply happen at their time.

    `troubles` are what is wrong with programs, nodes and services, each with a line to show.
    """

    job_failure: float = 0.0
    refuse_start: float = 0.0
    drop_report: float = 0.0
    repeat_report: float = 0.0
    drop_instruction: float = 0.0
    repeat_instruction: float = 0.0
    late_seconds: float = 0.0
    lease_seconds: float = 20.0
    until_seconds: float = float("inf")
    planned: tuple[Event, ...] = field(default=())
    troubles: Troubles = NO_TROUBLES

    def after(self, at: float) -> Self:
        """What of them is still to come."""
        return replace(self, planned=tuple(event for event in self.planned if event.at > at))

    @property
    def lossy(self) -> bool:
        return any(
            (
                self.drop_report,
                self.repeat_report,
                self.drop_instruction,
                self.repeat_instruction,
                self.late_seconds,
            )
        )


NO_FAULTS = Faults()
