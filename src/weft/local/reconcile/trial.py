"""A trial of a gang as a job of this machine: the gang's own command, with one worker.

It keeps nothing and tells nobody. What it dies of is held against its gang only where that would
come at any width: a program may well need the others.
"""

from typing import Any, Final

from weft.failure.classes import FailureClass
from weft.local.record.entry import End, Entry
from weft.model.trial import SUFFIX

LEFT_OUT: Final = ("checkpoint", "notify", "retry", "work", "duration")
SURE_CLASSES: Final = frozenset({FailureClass.ENVIRONMENT, FailureClass.INPUT, FailureClass.ACCESS})
SURE_RULES: Final = frozenset({"syntax_error", "cmd_not_found", "bad_argument"})


def trial_entry(gang: Entry, uid: str, now: float) -> Entry:
    """As if its owner had submitted it."""
    spec: dict[str, Any] = {key: value for key, value in gang.spec.items() if key not in LEFT_OUT}
    spec["resources"] = {**gang.spec.get("resources", {}), "gpus": 1}
    return Entry(
        uid=uid,
        owner=gang.owner,
        name=f"{gang.name}{SUFFIX}",
        spec=spec,
        origin=gang.origin,
        submitted_at=now,
        waiting_since=now,
    )


def shows(end: End) -> bool:
    """Whether the gang would end so too."""
    found = end.diagnosis
    return found is not None and (found.kind in SURE_CLASSES or found.rule in SURE_RULES)
