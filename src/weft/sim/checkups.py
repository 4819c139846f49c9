"""Nodes that are checked and services that are asked: the truth answers.

A node that is checked again and again is one that stays aside: people have seen to it within a day.
"""

from collections.abc import Callable
from typing import Any

from weft.brain.event import Event, NodeChecked, ServiceAsked
from weft.brain.instruction import AskService, CheckNode
from weft.model.ids import NodeId
from weft.sim.agenda import Agenda, Turn
from weft.sim.troubles import CHECK_SECONDS, PEOPLE_SECONDS, Troubles

LONGEST_REST_SECONDS = 28_800.0
"""Who was not checked for so long was back meanwhile."""


class Checkups:
    """A check takes its time; a service is asked at once. Both answers may get lost."""

    def __init__(self, troubles: Troubles, agenda: Agenda, tell: Callable[[Event], None]) -> None:
        self._troubles = troubles
        self._agenda = agenda
        self._tell = tell
        self._aside: dict[NodeId, tuple[float, float]] = {}  # since when, and when last checked
        self.acts: dict[type, Callable[[Any], None]] = {
            CheckNode: self._check,
            AskService: self._ask,
        }

    def _check(self, check: CheckNode) -> None:
        at = self._agenda.now + CHECK_SECONDS
        self._agenda.put(at, Turn.MESSAGE, self._checked, check.node)

    def _checked(self, node: NodeId) -> None:
        now, troubles = self._agenda.now, self._troubles
        passed = troubles.passes(node, now)
        repaired = troubles.is_repaired(node, now) or self._people_have_seen_to(node, now)
        self._tell(NodeChecked(now, node, passed, repaired=passed and repaired))

    def _people_have_seen_to(self, node: NodeId, now: float) -> bool:
        since, last = self._aside.get(node, (now, now))
        since = now if now - last > LONGEST_REST_SECONDS else since
        self._aside[node] = since, now
        return now - since >= PEOPLE_SECONDS

    def _ask(self, ask: AskService) -> None:
        now = self._agenda.now
        self._tell(ServiceAsked(now, ask.service, self._troubles.answers(ask.service, now)))
