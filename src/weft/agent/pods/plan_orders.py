"""Orders to go to another plan, as the operator tells them to a head, and what it answers.

Width follows pods, but for this: an order names a plan, the GPUs that it is for, and the seats that
are to be left. Pods that come for it are not trained on before all of them are there, and those who
leave are not begun on any more; then one change of the coordinator does all of it. What came of it
is said with every report until there is another order, since operators come and go.
"""

from typing import TYPE_CHECKING

from weft.agent.coordination.epochs import Phase
from weft.agent.pods.discovery import PlanOrder, Word
from weft.agent.pods.mandate import Mandate
from weft.agent.refusal import why_not_so
from weft.agent.reports.report import OrderAnswer
from weft.agent.workers.places import Seat

if TYPE_CHECKING:
    from weft.agent.pods.head import HeadAgent


class PlanOrders:
    """Of one head: the order that it follows, if it follows one."""

    def __init__(self, head: "HeadAgent", mandate: Mandate | None) -> None:
        self._head = head
        if mandate is not None:
            head.coordinator.offers = mandate.offers
        self._order: PlanOrder | None = None
        self._begun = False
        self._switches = 0  # when it was begun
        self._withdrawn: list[Seat] = []

    @property
    def answer(self) -> OrderAnswer | None:
        """What came of the last one."""
        return self._head.progress.answer

    def hear(self, word: Word) -> None:
        """What the operator has on record; one that knows of no orders is told nothing of them."""
        self._head.progress.tells_plans = word.orders
        order = word.order
        if order is None:
            self.call_off("it was taken back")
        elif order.serial not in (self._serial, self.answer.serial if self.answer else 0):
            self.call_off("another one came")
            self._order, self._begun = order, False
            told = {"serial": order.serial, "plan": str(order.plan), "width": order.width}
            self._head.tell("ordered", told)

    @property
    def _serial(self) -> int:
        return self._order.serial if self._order else 0

    def follow(self) -> bool:
        """Whether there is an order, so that nobody else says how wide the job is to be."""
        self._head.rendezvous.unit = self._head.coordinator.plans.plan.unit
        if self._head.coordinator.offers and self._head.progress.tells_plans:
            self._head.role.listen_for_orders()
        order = self._order
        if order is None:
            return False
        if not self._begun:
            self._begin(order)
        else:
            self._look(order)
        return True

    def call_off(self, why: str) -> None:
        """The job stays under the plan that it has."""
        order = self._order
        if order is None:
            return
        begun = self._begun
        self._close(order, reached=False, why=why)
        if begun:
            self._turn_back()

    def _begin(self, order: PlanOrder) -> None:
        """When all who are to come have come."""
        head = self._head
        if order.width < 1 or order.width % order.plan.unit:
            self._close(order, reached=False, why=f"it does not fit {order.width} workers")
            return
        here = [head.places.withdraw(seat) for seat in order.leaving]
        self._withdrawn += [seat for seat in here if seat is not None]
        if head.places.gpus < order.width:
            return
        if why := why_not_so(head, order.plan):
            self._close(order, reached=False, why=why)
            return
        self._begun, self._switches = True, head.coordinator.plans.done
        head.approach(order.width, order.plan)

    def _look(self, order: PlanOrder) -> None:
        """Whether it is over, one way or the other."""
        mind = self._head.coordinator
        if mind.phase is not Phase.STEADY or mind.plans.wanted != mind.plans.plan:
            return
        if mind.plans.plan == order.plan and len(mind.members) == order.width:
            self._close(order, reached=True)
        elif mind.unreached is not None:
            self._close(order, reached=False, why=mind.unreached.why)

    def _close(self, order: PlanOrder, *, reached: bool, why: str = "") -> None:
        """Seats that it was to leave are the job's again, unless it has left them."""
        head, mind = self._head, self._head.coordinator
        withdrawn, self._withdrawn, self._order = self._withdrawn, [], None
        for seat in withdrawn if not reached else ():
            if seat.number == head.home or seat.number in head.followers.hosts:
                head.crew.open(seat)
        switched = mind.plans.done > self._switches
        paused = mind.plans.paused_seconds if switched else mind.paused_seconds
        head.progress.answer = OrderAnswer(order.serial, reached, why, paused if reached else None)
        head.tell("answered", {"serial": order.serial, "reached": reached, "why": why})
        head.progress.tell_soon()

    def _turn_back(self) -> None:
        """What was begun for it is let go; what is being tried is over in seconds, and stays."""
        mind = self._head.coordinator
        self._head.approach(len(mind.members) or mind.width, mind.plans.plan)
