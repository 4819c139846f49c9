"""A diagnosis as plain values, for records and wires, and back again."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from weft.failure.classes import FailureClass, NodeAction, Retry
from weft.failure.diagnosis import Diagnosis
from weft.failure.lines import Stream, shown
from weft.model.ids import NodeId

MOST_OTHERS: Final = 5

Json = dict[str, Any]


def written(found: Diagnosis) -> Json:
    """Names instead of numbers, so that a record is read as it is."""
    told = {name: value for name, value in asdict(found).items() if value not in (None, "", ())}
    if found.node_action is NodeAction.NONE:
        del told["node_action"]
    else:
        told["node_action"] = found.node_action.name.lower()
    return told | {"others": list(found.others)} if found.others else told


def read(told: object) -> Diagnosis | None:
    """What was written; None of anything else, such as what a newer Weft wrote."""
    if not isinstance(told, Mapping):
        return None
    try:
        return _read(told)
    except (KeyError, ValueError, TypeError):
        return None


def _read(told: Mapping[str, Any]) -> Diagnosis:
    others = told.get("others", ())
    rank = told.get("rank")
    return Diagnosis(
        kind=FailureClass(told["kind"]),
        rule=shown(told["rule"]),
        says=shown(told["says"]),
        cure=Retry(told["cure"]),
        advice=shown(told["advice"]),
        line=shown(told.get("line", "")),
        fingerprint=shown(told["fingerprint"]),
        stream=Stream(told["stream"]) if told.get("stream") else None,
        node=NodeId(shown(told["node"])) if told.get("node") else None,
        node_action=NodeAction[str(told.get("node_action", "none")).upper()],
        rank=rank if type(rank) is int else None,
        service=shown(told.get("service", "")),
        others=tuple(shown(one) for one in others)[:MOST_OTHERS],
    )
