"""What journals of earlier versions wrote otherwise, brought to the words of today.

A journal is worth keeping because it replays; so a field that was replaced is still read.
"""

from collections.abc import Mapping
from typing import Any

from weft.failure.evidence import FailureClass


def present_event(name: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """A failure was once no more than whether to try again."""
    if name != "JobFailed" or "retryable" not in fields:
        return fields
    kind = FailureClass.UNKNOWN if fields["retryable"] else FailureClass.USER
    rest = {key: value for key, value in fields.items() if key != "retryable"}
    return {"failure": {"kind": kind.value}} | rest


def present_instruction(said: list[Any]) -> list[Any]:
    """An assignment once named a company, and it was always none."""
    verb, fields = said
    assignment = fields.get("assignment")
    if assignment is None or assignment.get("group", ...) is not None:
        return said
    rest = {key: value for key, value in assignment.items() if key != "group"}
    return [verb, fields | {"assignment": rest}]
