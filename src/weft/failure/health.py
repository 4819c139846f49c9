"""What is remembered of failures beyond a single job: blame of nodes, breakers, who is set aside.

It is one value that is replaced when something changes, so a world that has to survive a crash
compares two of them by identity and writes the new one down; nothing else has to be kept.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from weft.failure import breaker as breakers
from weft.failure.backoff import Backoff
from weft.failure.blame import (
    Blame,
    Blames,
    case,
    forgiven,
    is_lemon,
    laid,
    quarantined,
    stands_out,
)
from weft.failure.breaker import Breaker, Hold, Strike
from weft.failure.classes import NodeAction
from weft.model.ids import JobId, NodeId, TenantId

NO_BLAMES: Final = Blames()
CHECKS: Final = Backoff(first_seconds=600.0, cap_seconds=4 * 3_600.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A node where nothing starts until a check has passed; a lemon also has to be repaired.

    `due_seconds` is when it is to be checked next: ever later, the more checks it has failed.
    """

    node: NodeId
    since_seconds: float
    due_seconds: float
    why: str
    checks: int = 0
    lemon: bool = False
    asked: bool = False

    def as_of(self, at_seconds: float) -> "SetAside":
        """Where the clock was set back since."""
        return replace(
            self,
            since_seconds=min(self.since_seconds, at_seconds),
            due_seconds=min(self.due_seconds, at_seconds + CHECKS.after(self.checks + 1)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """All of it; `for_people` are nodes that would be set aside if there were not too many."""

    blames: Blames = NO_BLAMES
    breakers: tuple[Breaker, ...] = ()
    aside: tuple[SetAside, ...] = ()
    for_people: tuple[NodeId, ...] = ()

    def is_aside(self, node: NodeId) -> bool:
        return any(one.node == node for one in self.aside)

    def breaker(self, service: str) -> Breaker:
        return next(
            (one for one in self.breakers if one.service == service), Breaker(service=service)
        )

    def hold(self, service: str, job: JobId, user: TenantId, at_seconds: float) -> Hold:
        """What holds for a job that has failed on the service."""
        if not service:
            return breakers.FREE
        return breakers.hold(self.breaker(service), job, user, at_seconds)

    def told(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "blames": self.blames.told(),
            "breakers": [one.told() for one in self.breakers],
            "aside": [
                [
                    *(one.node, one.since_seconds, one.due_seconds, one.why),
                    *(one.checks, one.lemon, one.asked),
                ]
                for one in self.aside
            ],
            "for_people": list(self.for_people),
        }

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> "Health":
        """What `told` told."""
        return cls(
            blames=Blames.read(told["blames"]),
            breakers=tuple(map(Breaker.read, told["breakers"])),
            aside=tuple(
                SetAside(
                    node=NodeId(node),
                    since_seconds=since,
                    due_seconds=due,
                    why=why,
                    checks=checks,
                    lemon=lemon,
                    asked=asked,
                )
                for node, since, due, why, checks, lemon, asked in told["aside"]
            ),
            for_people=tuple(map(NodeId, told["for_people"])),
        )


WELL: Final = Health()


def as_of(health: Health, at_seconds: float) -> Health:
    """The same where the clock was set back since it was written: nothing comes after now.

    A check or a question that was due in an hour by the old clock would keep nodes and jobs waiting
    until the new one has caught up.
    """
    return replace(
        health,
        blames=health.blames.as_of(at_seconds),
        breakers=tuple(one.as_of(at_seconds) for one in health.breakers),
        aside=tuple(one.as_of(at_seconds) for one in health.aside),
    )


def struck(health: Health, service: str, one: Strike) -> Health:
    """A job has failed on a service."""
    return _with_breaker(health, breakers.strike(health.breaker(service), one))


def answered(health: Health, service: str, at_seconds: float, *, answers: bool) -> Health:
    """What a service said when it was asked; about one that nobody missed there is no news."""
    before = health.breaker(service)
    after = breakers.probed(before, at_seconds, answers=answers)
    return _with_breaker(health, after) if before in health.breakers else health


def asking(health: Health, service: str, at_seconds: float) -> Health:
    """It is being asked; the next time is counted from now, whether it says something or not."""
    return _with_breaker(health, replace(health.breaker(service), probed_seconds=at_seconds))


def blame(
    health: Health, new: Collection[Blame], pool: Collection[NodeId], at_seconds: float
) -> Health:
    """Something is laid to nodes of one pool; those of which it makes a case are set aside."""
    if not new:
        return health
    blames = laid(health.blames, new, at_seconds)
    suspects = dict.fromkeys(one.node for one in new)
    cases = [case(blames, node, at_seconds) for node in suspects]
    already = {one.node for one in health.aside}
    found = quarantined(cases, pool, already)
    reasons = {one.node: one for one in cases}
    fresh = tuple(
        SetAside(
            node=node,
            since_seconds=at_seconds,
            due_seconds=at_seconds,
            why=reasons[node].why,
            lemon=reasons[node].action is NodeAction.QUARANTINE
            or (is_lemon(blames, node, at_seconds) and stands_out(blames, node, pool, at_seconds)),
        )
        for node in found.nodes
    )
    waiting = dict.fromkeys((*health.for_people, *found.for_people))
    people = tuple(node for node in waiting if node not in found.nodes)
    return replace(health, blames=blames, aside=(*health.aside, *fresh), for_people=people)


def checked(
    health: Health, node: NodeId, at_seconds: float, *, passed: bool, repaired: bool = False
) -> Health:
    """A check came back: who passes returns, unless it is a lemon that nobody has repaired."""
    found = next((one for one in health.aside if one.node == node), None)
    people = tuple(one for one in health.for_people if one != node)
    bad = found is not None and found.lemon and is_lemon(health.blames, node, at_seconds)
    if passed and (repaired or not bad):
        aside = tuple(one for one in health.aside if one.node != node)
        blames = forgiven(health.blames, node, at_seconds)
        return replace(health, blames=blames, aside=aside, for_people=people)
    if found is None or not found.asked:
        return health  # news of it came before: it counts once
    failed = replace(found, checks=found.checks + 1, asked=False)
    return _put_off(health, failed, at_seconds)


def checking(health: Health, one: SetAside, at_seconds: float) -> Health:
    """It is being checked, and is asked after again if nobody tells of it."""
    return _put_off(health, replace(one, asked=True), at_seconds)


def _put_off(health: Health, one: SetAside, at_seconds: float) -> Health:
    rest = CHECKS.after(one.checks + 1)
    later = replace(one, due_seconds=at_seconds + rest)
    aside = tuple(later if old.node == one.node else old for old in health.aside)
    return replace(health, aside=aside)


def _with_breaker(health: Health, breaker: Breaker) -> Health:
    others = tuple(one for one in health.breakers if one.service != breaker.service)
    return replace(health, breakers=(*others, breaker))
