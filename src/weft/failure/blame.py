"""Which nodes are at fault: blame of several jobs and users, which fades.

One failed job says little about a node: it may be the job's own fault, and a user with a bug fails
wherever he is put. So a node is cordoned when several jobs of several users fail there, or when its
kernel says so itself; what one user fails with on several nodes counts against none of them. How
many nodes may be set aside at once is bounded, because a fault of everything looks like a fault of
each node; above the bound people are called.
"""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from weft.failure.classes import FailureClass, Fault, NodeAction
from weft.failure.diagnosis import Diagnosis
from weft.failure.retry import Run
from weft.model.ids import JobId, NodeId, TenantId

DAY_SECONDS: Final = 86_400.0
AT_ONCE_SECONDS: Final = 60.0
MOST_BLAMES: Final = 20_000
ROUNDING: Final = 1e-9  # thirds that are added up
SHARED: Final = frozenset({FailureClass.PEER, FailureClass.HANG, FailureClass.NETWORK})


@dataclass(frozen=True, slots=True, kw_only=True)
class BlameTerms:
    """When suspicion becomes a case, and what makes a lemon of a node."""

    half_life_seconds: float = 7 * DAY_SECONDS
    window_seconds: float = DAY_SECONDS
    score: float = 2.0
    users: int = 2  # at least: what one prints takes no machine from everybody
    memory_seconds: float = 28 * DAY_SECONDS
    lemon_failures: int = 3
    most_share: float = 0.05


TERMS: Final = BlameTerms()


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """A failure that was laid to a node; `weight` is less than one where it was shared."""

    node: NodeId
    at_seconds: float
    job: JobId
    user: TenantId
    fingerprint: str
    action: NodeAction = NodeAction.SUSPECT
    weight: float = 1.0
    forgiven: bool = False  # by a check or a repair since

    def told(self) -> list[Any]:
        """As plain values."""
        origin = (self.node, self.at_seconds, self.job, self.user, self.fingerprint)
        return [*origin, int(self.action), self.weight, self.forgiven]

    @classmethod
    def read(cls, told: Iterable[Any]) -> "Blame":
        """What `told` told."""
        node, at, job, user, fingerprint, action, weight, forgiven = told
        return cls(
            node=NodeId(node),
            at_seconds=at,
            job=JobId(job),
            user=TenantId(user),
            fingerprint=fingerprint,
            action=NodeAction(action),
            weight=weight,
            forgiven=forgiven,
        )


@dataclass(frozen=True, slots=True)
class Case:
    """What follows for a node, and why."""

    node: NodeId
    action: NodeAction
    why: str


@dataclass(frozen=True, slots=True)
class Blames:
    """All that was laid to nodes within the memory; frozen, and plain when told."""

    entries: tuple[Blame, ...] = ()

    def told(self) -> list[list[Any]]:
        return [one.told() for one in self.entries]

    def as_of(self, at_seconds: float) -> "Blames":
        """Where the clock was set back since."""
        late = (replace(one, at_seconds=min(one.at_seconds, at_seconds)) for one in self.entries)
        return Blames(tuple(late))

    @classmethod
    def read(cls, told: Iterable[Iterable[Any]]) -> "Blames":
        return cls(tuple(map(Blame.read, told)))


def blamed(found: Diagnosis, run: Run, user: TenantId) -> tuple[Blame, ...]:
    """What a failure lays to nodes: all to the one at fault, or a part to each where one must be.

    Workers that lost touch with each other, or hang, have a node at fault somewhere, or none.
    """
    blame = partial(
        Blame, at_seconds=run.at_seconds, job=run.job, user=user, fingerprint=found.fingerprint
    )
    if found.node is not None and found.node_action > NodeAction.NONE:
        at_once = run.ran_seconds < AT_ONCE_SECONDS and found.kind.facts.fault is Fault.MACHINE
        weight = 2.0 if at_once else 1.0
        return (blame(node=found.node, action=found.node_action, weight=weight),)
    if found.node is None and found.kind in SHARED:
        share = 1.0 / max(len(run.nodes), 1)
        return tuple(blame(node=node, weight=share) for node in sorted(run.nodes))
    return ()


def laid(blames: Blames, new: Iterable[Blame], at_seconds: float) -> Blames:
    """With these, and without what is older than the memory or more than it holds."""
    since = at_seconds - TERMS.memory_seconds
    kept = (*(old for old in blames.entries if old.at_seconds > since), *new)
    return Blames(kept[-MOST_BLAMES:])


def forgiven(blames: Blames, node: NodeId, at_seconds: float) -> Blames:
    """After a repair or a passed check: what came before is no longer held against the node.

    Lemons are told by a count over weeks, checks between them or not, so the count stays.
    """
    kept = (
        replace(one, forgiven=True) if one.node == node and one.at_seconds <= at_seconds else one
        for one in blames.entries
    )
    return Blames(tuple(kept))


def score(blames: Blames, node: NodeId, at_seconds: float, terms: BlameTerms = TERMS) -> float:
    """Suspicion of a node: each job once, halved with every half-life."""

    def faded(one: Blame) -> float:
        age = max(0.0, at_seconds - one.at_seconds)
        return one.weight * math.exp2(-age / terms.half_life_seconds)

    return _summed(_held(blames, node), faded)


def case(blames: Blames, node: NodeId, at_seconds: float, terms: BlameTerms = TERMS) -> Case:
    """What follows for a node from all that is held against it now."""
    since = at_seconds - terms.window_seconds
    recent = [one for one in _held(blames, node) if one.at_seconds > since]
    worst = max((one.action for one in recent), default=NodeAction.NONE)
    if worst >= NodeAction.CORDON:
        return Case(node, worst, "its kernel or its platform says so")
    jobs = {one.job for one in recent}
    users = {one.user for one in recent}
    weight = _summed(recent, lambda one: one.weight) + ROUNDING
    if len(users) >= terms.users and weight >= terms.score:
        return Case(node, NodeAction.CORDON, _told(jobs, users))
    return Case(node, worst, "")


def is_lemon(blames: Blames, node: NodeId, at_seconds: float, terms: BlameTerms = TERMS) -> bool:
    """Whether it failed so often in four weeks that chance does not explain it.

    One user alone makes no lemon, unless the node's own kernel agrees.
    """
    since = at_seconds - terms.memory_seconds
    mine = [
        one
        for one in blames.entries
        if one.node == node and one.weight >= 1.0 and one.at_seconds > since
    ]
    held = _not_wandering(blames, mine)
    sure = {one.job for one in held if one.action >= NodeAction.CORDON}
    users, jobs = {one.user for one in held}, {one.job for one in held}
    counted = jobs if len(users) >= terms.users else sure
    return len(counted) >= terms.lemon_failures


def stands_out(
    blames: Blames,
    node: NodeId,
    pool: Collection[NodeId],
    at_seconds: float,
    terms: BlameTerms = TERMS,
) -> bool:
    """Whether it is blamed for more than its neighbours are, beyond what chance explains.

    In a small pool every node sees many jobs that fail of themselves, so a count of what programs
    say is not enough: the node's own kernel, or its platform, has to agree once.
    """
    since = at_seconds - terms.memory_seconds
    jobs: dict[NodeId, set[JobId]] = {}
    sure: set[JobId] = set()
    for one in blames.entries:
        if one.weight >= 1.0 and one.at_seconds > since and one.node in pool:
            jobs.setdefault(one.node, set()).add(one.job)
            if one.node == node and one.action >= NodeAction.CORDON:
                sure.add(one.job)
    own = len(jobs.pop(node, ()))
    usual = sum(map(len, jobs.values())) / max(len(pool) - 1, 1)
    return len(sure) >= terms.lemon_failures or (
        bool(sure) and own > usual + 3.0 * math.sqrt(usual)
    )


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Nodes to set aside, and those that would be if there were not too many: people decide."""

    nodes: tuple[NodeId, ...]
    for_people: tuple[NodeId, ...]


def quarantined(
    cases: Iterable[Case],
    pool: Collection[NodeId],
    already: Collection[NodeId] = (),
    terms: BlameTerms = TERMS,
) -> Quarantine:
    """The worst cases first, up to the share of a pool that may be set aside without people."""
    inside = set(pool)
    room = most_of(len(inside), terms) - len(inside.intersection(already))
    wanted = sorted(
        (one for one in cases if one.action >= NodeAction.CORDON and one.node in inside),
        key=lambda one: (-one.action, one.node),
    )
    fresh = [one.node for one in wanted if one.node not in already]
    room = max(room, 0)
    return Quarantine(tuple(fresh[:room]), tuple(fresh[room:]))


def most_of(nodes: int, terms: BlameTerms = TERMS) -> int:
    """How many of so many nodes; in a small pool one, unless it is the only one."""
    return max(int(nodes * terms.most_share), 1 if nodes > 1 else 0)


def _summed(blames: Iterable[Blame], weight: Callable[[Blame], float]) -> float:
    """Each job once, with the most that it weighs."""
    best: dict[JobId, float] = {}
    for one in blames:
        best[one.job] = max(best.get(one.job, 0.0), weight(one))
    return sum(best.values())


def _held(blames: Blames, node: NodeId) -> list[Blame]:
    """What is held against a node: not what the same user fails with on other nodes too."""
    return _not_wandering(
        blames, [one for one in blames.entries if one.node == node and not one.forgiven]
    )


def _not_wandering(blames: Blames, mine: Sequence[Blame]) -> list[Blame]:
    wandering = _wandering(blames, mine) if mine else set()
    return [one for one in mine if (one.user, one.fingerprint) not in wandering]


def _wandering(blames: Blames, mine: Sequence[Blame]) -> set[tuple[TenantId, str]]:
    """Failures of one user that also came where this node was not; the kernel's word is no such."""
    node = mine[0].node
    asked = {(one.user, one.fingerprint) for one in mine if one.action < NodeAction.CORDON}
    places: dict[tuple[TenantId, str, JobId, float], set[NodeId]] = {}
    for one in blames.entries:
        if (one.user, one.fingerprint) in asked:
            failure = (one.user, one.fingerprint, one.job, one.at_seconds)
            places.setdefault(failure, set()).add(one.node)
    return {failure[:2] for failure, nodes in places.items() if node not in nodes}


def _told(jobs: Collection[JobId], users: Collection[TenantId]) -> str:
    return f"{len(jobs)} jobs of {len(users)} users failed there within a day"
