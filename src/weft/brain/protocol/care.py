"""What failures teach of nodes and services, and what is asked until they are well again.

A node that is set aside comes back after a check that it passed, and a service that did not answer
when it does. Both are asked for when they are due, and again if nobody answers: a world that can
check nothing keeps such nodes aside, and lets jobs back to the service after a while.
"""

from typing import Final

from weft.brain.context import Context
from weft.brain.event import HealthRecalled, NodeChecked, ServiceAsked
from weft.brain.instruction import AskService, CheckNode
from weft.brain.protocol.admission import Admission
from weft.brain.protocol.node_events import Nodes
from weft.brain.protocol.outbox import Outbox
from weft.brain.protocol.pace import Pace
from weft.brain.state.waits import REASON_ROW
from weft.failure import health as healths
from weft.failure.blame import blamed
from weft.failure.breaker import TERMS, Strike, probe_due_seconds
from weft.failure.diagnosis import Diagnosis
from weft.failure.health import Health, SetAside
from weft.failure.retry import Run
from weft.model.ids import NodeId
from weft.model.reason import ReasonCode
from weft.model.state import State

WAITING: Final = (State.QUEUED, State.ADMITTED)
BREAKER: Final = REASON_ROW[ReasonCode.BREAKER_OPEN]


class Care:
    """Keeps the health of nodes and services, and tells the rounds what follows from it."""

    def __init__(
        self,
        context: Context,
        outbox: Outbox,
        *,
        pace: Pace,
        nodes: Nodes,
        admission: Admission,
    ) -> None:
        self._context = context
        self._outbox = outbox
        self._pace = pace
        self._nodes = nodes
        self._admission = admission

    # --- what a failure teaches ---------------------------------------------------------------

    def learn(self, slot: int, found: Diagnosis, run: Run) -> None:
        """Blame where it belongs; a service that fails many is nobody's fault."""
        state = self._context.state
        user = state.spec(slot).tenant
        health = state.failures.health
        settings = self._context.settings
        if found.service and settings.breakers:
            health = healths.struck(health, found.service, Strike(run.at_seconds, run.job, user))
        new = [one for one in blamed(found, run, user) if one.node in state.node_row]
        if new and settings.quarantine:  # a gang never spans two pools
            inside = state.node_table.in_pool_of(new[0].node)
            health = healths.blame(health, new, inside, run.at_seconds)
        self._become(health)
        if found.service:
            self.hold_all(found.service)

    # --- what the world says ------------------------------------------------------------------

    def checked(self, event: NodeChecked) -> None:
        self._become(
            healths.checked(
                self._context.state.failures.health,
                event.node,
                self._context.now,
                passed=event.passed,
                repaired=event.repaired,
            )
        )

    def asked(self, event: ServiceAsked) -> None:
        health = self._context.state.failures.health
        self._answered(health, event.service, answers=event.answers)

    def recalled(self, event: HealthRecalled) -> None:
        """For a brain that knows nothing; one that has learnt something knows better."""
        if self._context.state.failures.health is healths.WELL:
            self._become(healths.as_of(event.health, self._context.now))

    # --- time passes --------------------------------------------------------------------------

    @property
    def due_at(self) -> float | None:
        """When something is to be asked next."""
        health = self._context.state.failures.health
        times = [one.due_seconds for one in self._aside_and_there()]
        times += [probe_due_seconds(one) for one in health.breakers if one.is_open]
        times += self._context.state.failures.avoiding.values()
        return min(times, default=None)

    def tick(self) -> None:
        """Ask what is due."""
        now = self._context.now
        self._come_back()
        for one in self._aside_and_there():
            if one.due_seconds <= now:
                self._outbox.say(CheckNode(one.node, one.why))
                self._become(healths.checking(self._context.state.failures.health, one, now))
        for breaker in self._context.state.failures.health.breakers:
            if breaker.is_open and probe_due_seconds(breaker) <= now:
                self._ask(breaker.service)
            answered = breaker.answered_seconds
            coming_back = answered is not None and now - answered <= TERMS.spread_seconds
            if breaker.is_open or coming_back:
                self.hold_all(breaker.service)

    def _aside_and_there(self) -> list[SetAside]:
        """Nobody can check a node that is lost; it is due when it comes back."""
        state = self._context.state
        present, rows = state.nodes.present, state.node_row
        return [
            one
            for one in state.failures.health.aside
            if one.node in rows and present[rows[one.node]]
        ]

    def _ask(self, service: str) -> None:
        """Once more; where nobody has answered for long, jobs find out for themselves."""
        health, now = self._context.state.failures.health, self._context.now
        breaker = health.breaker(service)
        assert breaker.opened_seconds is not None
        silent = max(breaker.opened_seconds, breaker.heard_seconds or 0.0)
        if now - silent >= self._context.settings.breaker_seconds:
            self._answered(health, service, answers=True)
            return
        self._outbox.say(AskService(service))
        self._become(healths.asking(health, service, now))

    # --- what follows -------------------------------------------------------------------------

    def _answered(self, health: Health, service: str, *, answers: bool) -> None:
        self._become(healths.answered(health, service, self._context.now, answers=answers))
        self.hold_all(service)

    def _become(self, health: Health) -> None:
        state, before = self._context.state, self._context.state.failures.health
        if health is before:
            return
        changed = {one.node for one in before.aside} ^ {one.node for one in health.aside}
        state.failures.health = health
        state.node_table.set_aside(one.node for one in health.aside)
        for node in sorted(changed):
            self._put(node)

    def _put(self, node: NodeId) -> None:
        row = self._context.state.node_row.get(node)
        if row is not None:
            self._nodes.opened_or_closed(row)

    def is_held(self, slot: int, service: str) -> bool:
        """Whether the service is known to be down for this job's owner."""
        state = self._context.state
        user = state.failures.health.breaker(service).user
        return self.is_open(service) and user in (None, state.spec(slot).tenant)

    def is_open(self, service: str) -> bool:
        return self._context.state.failures.health.breaker(service).is_open

    def keep_off(self, slot: int) -> None:
        """From now on, and for a while, the job goes where it has not failed, if it can."""
        until = self._context.now + self._context.settings.avoid_seconds
        self._context.state.failures.avoiding[slot] = until
        self._context.state.tell_kind(slot)

    def _come_back(self) -> None:
        """Those who have kept off long enough take what there is."""
        avoiding, now = self._context.state.failures.avoiding, self._context.now
        for slot in [slot for slot, until in avoiding.items() if until <= now]:
            del avoiding[slot]
            self._context.state.tell_kind(slot)
            self._pace.supply_grew = True
            self._pace.want()

    def hold_all(self, service: str) -> None:
        """Whoever waits and has failed on the service waits as long as its breaker says."""
        state = self._context.state
        needing = [
            slot
            for slot, retry in state.failures.retries.items()
            if retry.service == service and state.state_of(slot) in WAITING
        ]
        self._admission.withdraw_pledges([slot for slot in needing if self.is_held(slot, service)])
        for slot in needing:
            if state.state_of(slot) is State.QUEUED:
                self.hold(slot)

    def hold(self, slot: int) -> None:
        """A job that waits and failed on a service at last.

        While the breaker holds it, its own rest does not count: the service is asked instead.
        """
        state, now = self._context.state, self._context.now
        spec, service = state.spec(slot), state.failures.retry(slot).service
        held = state.failures.health.hold(service, spec.id, spec.tenant, now)
        if held.until_seconds is None:
            return
        until = held.until_seconds
        if int(state.jobs.reason[slot]) != BREAKER:
            alone = not state.failures.health.breaker(service).is_open
            until = max(until, float(state.jobs.not_before[slot])) if alone else until
            state.waits.book(slot, now, BREAKER)
        state.jobs.not_before[slot] = until
        self._pace.rest(until - now)
        self._pace.want_at(until)
