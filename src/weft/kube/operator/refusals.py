"""Why the cluster rejected the last start of a job, for the reasons that the job shows.

The scheduler core counts refused starts and does not keep their texts. An owner needs the text: it
names the object that is in the way, or the quota that is used up.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from weft.brain.event import Event, InstructionDone, InstructionRefused, Verb
from weft.model.ids import JobId
from weft.model.reason import Reason, ReasonCode

NEXT_TRY: Final = frozenset({ReasonCode.ROUND_PENDING, ReasonCode.BACKOFF_REFUSED})


class Refusals:
    """The reason of the last refused start by job, until a start succeeds."""

    def __init__(self) -> None:
        self._why: dict[JobId, str] = {}

    def record(self, event: Event) -> None:
        if not isinstance(event, InstructionRefused | InstructionDone):
            return
        if event.verb is not Verb.START:
            return
        if isinstance(event, InstructionRefused):
            self._why[event.job] = event.why
        else:
            self._why.pop(event.job, None)

    def annotate(self, job: JobId, reasons: Sequence[Reason]) -> Sequence[Reason]:
        """The same reasons; those that announce another try say why the last one was refused."""
        if not (why := self._why.get(job)):
            return reasons
        return [_with_note(one, why) if one.code in NEXT_TRY else one for one in reasons]

    def forget(self, key: str) -> None:
        self._why.pop(JobId(key), None)


def _with_note(reason: Reason, why: str) -> Reason:
    note = f"The cluster rejected the last start: {why.rstrip('.')}."
    return replace(reason, note=f"{reason.note} {note}".strip())
