"""What journals of earlier versions wrote otherwise, brought to the words of today.

A journal is worth keeping because it replays; so a field that was replaced is still read.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from weft.failure.evidence import FailureClass
from weft.model.plan import AS_WRITTEN

PLAIN_PLAN: Final[Mapping[str, Any]] = asdict(AS_WRITTEN)


def present_event(name: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """A failure was once no more than whether to try again."""
    if name != "JobFailed" or "retryable" not in fields:
        return fields
    kind = FailureClass.UNKNOWN if fields["retryable"] else FailureClass.USER
    rest = {key: value for key, value in fields.items() if key != "retryable"}
    return {"failure": {"kind": kind.value}} | rest


def present_instruction(said: list[Any]) -> list[Any]:
    """What an assignment did not name it had not: no party, and a plan of fewer degrees.

    Once it named a group, which was always none.
    """
    verb, fields = said
    assignment = fields.get("assignment")
    if assignment is None:
        return said
    named = {key: value for key, value in assignment.items() if key != "group"}
    plan = PLAIN_PLAN | named.get("plan", {})
    return [verb, fields | {"assignment": {**named, "plan": plan, "party": named.get("party", "")}}]
