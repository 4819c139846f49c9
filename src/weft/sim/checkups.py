"""Nodes that are checked and services that are asked: the truth answers."""

from collections.abc import Callable
from typing import Any

from weft.brain.event import Event, NodeChecked, ServiceAsked
from weft.brain.instruction import AskService, CheckNode
from weft.model.ids import NodeId
from weft.sim.agenda import Agenda, Turn
from weft.sim.troubles import CHECK_SECONDS, Troubles


class Checkups:
    """A check takes its time; a service is asked at once. Both answers may get lost."""

    def __init__(self, troubles: Troubles, agenda: Agenda, tell: Callable[[Event], None]) -> None:
        self._troubles = troubles
        self._agenda = agenda
        self._tell = tell
        self.acts: dict[type, Callable[[Any], None]] = {
            CheckNode: self._check,
            AskService: self._ask,
        }

    def _check(self, check: CheckNode) -> None:
        at = self._agenda.now + CHECK_SECONDS
        self._agenda.put(at, Turn.MESSAGE, self._checked, check.node)

    def _checked(self, node: NodeId) -> None:
        now, troubles = self._agenda.now, self._troubles
        passed, repaired = troubles.passes(node, now), troubles.is_repaired(node, now)
        self._tell(NodeChecked(now, node, passed, repaired=passed and repaired))

    def _ask(self, ask: AskService) -> None:
        now = self._agenda.now
        self._tell(ServiceAsked(now, ask.service, self._troubles.answers(ask.service, now)))
