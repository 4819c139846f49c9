"""A trial of a gang in a real world: its own command, with one worker.

It keeps nothing and tells nobody. What it dies of is held against its gang only where that would
come at any width: a program may well need the others.
"""

from collections.abc import Mapping
from typing import Any, Final

from weft.failure.classes import FailureClass
from weft.failure.diagnosis import Diagnosis

VARIABLE: Final = "WEFT_TRIAL"  # so that a program can tell
OF_THE_GANG: Final = frozenset(
    {
        "checkpoint",
        "duration",
        "model",
        "nodes",
        "notify",
        "plans",
        "retry",
        "shareable",
        "stages",
    }
)
SURE_CLASSES: Final = frozenset({FailureClass.ENVIRONMENT, FailureClass.INPUT, FailureClass.ACCESS})
SURE_RULES: Final = frozenset({"syntax_error", "cmd_not_found", "bad_argument"})


def trial_spec(gang: Mapping[str, Any]) -> dict[str, Any]:
    """As if its owner had submitted it: what the gang asks for, with one GPU."""
    kept = {key: value for key, value in gang.items() if key not in OF_THE_GANG}
    return kept | {"resources": {**(gang.get("resources") or {}), "gpus": 1}}


def shows(found: Diagnosis | None) -> bool:
    """Whether the gang would end so too."""
    return found is not None and (found.kind in SURE_CLASSES or found.rule in SURE_RULES)
