"""What is remembered of a node, as people see it."""

from datetime import UTC, datetime
from typing import Final

from weft.failure.blame import Blame, score
from weft.failure.health import Health
from weft.model.ids import NodeId
from weft.view.node_page import Mark, NodeHealth

SHOWN_MARKS: Final = 20


def health_of(health: Health, node: str, at_seconds: float, *, names: bool = True) -> NodeHealth:
    """What is remembered of a node, with the names of jobs only for those who may see them."""
    name = NodeId(node)
    mine = [one for one in health.blames.entries if one.node == name]
    aside = next((one for one in health.aside if one.node == name), None)
    return NodeHealth(
        score=score(health.blames, name, at_seconds),
        failures=len(mine),
        aside_since=_moment(aside.since_seconds) if aside else None,
        check_due=_moment(aside.due_seconds) if aside else None,
        checks=aside.checks if aside else 0,
        lemon=bool(aside and aside.lemon),
        for_people=name in health.for_people,
        why=aside.why if aside else "",
        history=tuple(_mark(one, names=names) for one in mine[-SHOWN_MARKS:]),
    )


def _mark(one: Blame, *, names: bool) -> Mark:
    return Mark(
        at=_moment(one.at_seconds),
        job=str(one.job) if names else "",
        action=one.action.name.lower(),
        weight=one.weight,
        forgiven=one.forgiven,
    )


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
