"""Supply: the GPUs that can be handed out, by where they are and by who may have them.

A gang stays on one GPU type and inside one network, so GPUs are counted by *domain*: the nodes of
one type in one network. And a queue, with every ancestor of it, may hold no more than its cap. Both
are budgets, and jobs that pay from the same ones form a pool. Who hands GPUs out asks what is left
for a pool and pays from it, so no choice of widths can exceed a quota or count on GPUs that a job
could not use.

Where queues have guarantees there are two stages: first everybody within what is guaranteed to its
queue, then the rest within the caps. What a queue has a use for and was promised it gets, whatever
others would make of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from weft.model.snapshot import Bools, Floats, Ints, Snapshot
from weft.model.state import State
from weft.policy.tenancy.quota import NO_LIMIT, QuotaLedger

Pool = tuple[int, int, bool]
"""Domain, queue, and whether the job may not be preempted: who shares these shares all budgets."""


class Purse:
    """What is left of the budgets, by pool; `left` is always up to date."""

    __slots__ = ("_apart", "_budgets", "_pools", "_sharing", "left")

    def __init__(self, budgets: list[int], pools: Sequence[tuple[int, ...]]) -> None:
        self._budgets, self._pools = budgets, pools
        self.left = [self._room(pool) for pool in range(len(pools))]
        self._sharing = [
            [other for other, paid in enumerate(pools) if not set(paid).isdisjoint(mine)]
            for mine in pools
        ]
        self._apart = [
            len(mine) == 1 == len(others) for mine, others in zip(pools, self._sharing, strict=True)
        ]

    @property
    def single(self) -> bool:
        """Whether everybody pays from the same budgets."""
        return len(self.left) == 1

    def pay(self, pool: int, gpus: int) -> None:
        """Nearly every pool of a cluster without quotas has one budget to itself: the short way."""
        if self._apart[pool]:
            budget = self._pools[pool][0]
            self._budgets[budget] = left = self._budgets[budget] - gpus
            self.left[pool] = left if left > 0 else 0
            return
        for budget in self._pools[pool]:
            self._budgets[budget] -= gpus
        for other in self._sharing[pool]:
            self.left[other] = self._room(other)

    def pay_in_turn(self, pools: Iterable[int], asked: Iterable[int]) -> Iterator[bool]:
        """Pay what each asks for, if it is there; whether it was. What is left is told at the end,
        because here nobody looks at the pools of others in between."""
        budgets = self._budgets
        for pool, gpus in zip(pools, asked, strict=True):
            paying = self._pools[pool]
            there = min([budgets[budget] for budget in paying]) >= gpus
            if there:
                for budget in paying:
                    budgets[budget] -= gpus
            yield there
        self.left[:] = map(self._room, range(len(self._pools)))

    def _room(self, pool: int) -> int:
        return max(min(self._budgets[budget] for budget in self._pools[pool]), 0)


@dataclass(frozen=True, slots=True)
class Supply:
    """For each of the given jobs its pool, and the speed of the GPU type that it would run on.

    `budgets` are the GPUs of each domain, then what each queue may still be guaranteed and may
    still hold, all without what is not for hand-out. `stages` say which of them each pool pays
    from. Whoever is `overdue` gets its least before anybody gets more.
    """

    pool: Ints
    type_speed: Floats
    overdue: Bools
    budgets: tuple[int, ...]
    stages: tuple[tuple[tuple[int, ...], ...], ...]

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        slots: Ints,
        ledger: QuotaLedger | None = None,
        *,
        overdue: Bools | None = None,
    ) -> "Supply":
        """What the given jobs can have, by rank: all but what others hold or are owed.

        Those of them who are `overdue` have waited too long.
        """
        domains = Domains.of(snapshot)
        free = domains.available(snapshot, slots)
        domain = domains.dealt(snapshot, slots, free)
        speed = domains.speeds(snapshot, slots, domain)
        late = np.zeros(len(slots), bool) if overdue is None else overdue
        pools = tuple((row,) for row in range(len(free)))
        supply = cls(domain, speed, late, tuple(free.tolist()), (pools,))
        if ledger is None or not any(ledger.table.restricted):
            return supply
        return _with_quota(supply, snapshot, slots, ledger)

    def purses(self) -> Iterator[Purse]:
        """One for each stage; what is paid from one is missing in the next."""
        budgets = list(self.budgets)
        return (Purse(budgets, pools) for pools in self.stages)


NO_SUPPLY = Supply(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, bool), (), ())
"""For sizes that hand nothing out."""


@dataclass(frozen=True, slots=True)
class Domains:
    """The domains of a cluster: that of each node, and the GPU type of each."""

    of_node: Ints
    gpu_type: Ints

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Domains":
        nodes = snapshot.nodes
        if not len(nodes.gpus):
            return cls(np.zeros(0, np.int64), np.zeros(1, np.int64))
        pairs = nodes.pool * (int(nodes.gpu_type.max()) + 1) + nodes.gpu_type
        if (pairs == pairs[0]).all():
            return cls(np.zeros(len(pairs), np.int64), nodes.gpu_type[:1])
        _, first, of_node = np.unique(pairs, return_index=True, return_inverse=True)
        return cls(of_node, nodes.gpu_type[first])

    @property
    def count(self) -> int:
        return len(self.gpu_type)

    def available(self, snapshot: Snapshot, slots: Ints) -> Ints:
        """GPUs that the given jobs can have, by domain."""
        nodes, seats = snapshot.nodes, snapshot.seats
        usable = self._sum(self.of_node, nodes.gpus * (nodes.present & ~nodes.cordoned))
        given = np.zeros(len(snapshot.jobs.active) + 1, bool)
        given[slots] = True
        others = (seats.slot >= 0) & ~given[seats.slot]
        others &= (nodes.present & ~nodes.cordoned)[seats.node]
        where = self.of_node[seats.node]
        gpus = seats.gpus * others
        firm = self._sum(where, gpus * ~(seats.releasing | seats.pledged))
        leaving = self._sum(where, gpus * seats.releasing)
        coming = self._sum(where, gpus * seats.pledged)
        found: Ints = np.maximum(usable - firm - np.maximum(leaving, coming), 0)
        return found

    def dealt(self, snapshot: Snapshot, slots: Ints, free: Ints) -> Ints:
        """The domain of each job: where it runs, else the best that has its least, by rank."""
        if self.count == 1:
            return np.zeros(len(slots), np.int64)
        jobs, held = snapshot.jobs, self._held(snapshot)
        domain, left = held[slots], free.copy()
        least = jobs.min_gpus[slots].tolist()
        stays = np.flatnonzero(domain >= 0)
        np.subtract.at(left, domain[stays], jobs.min_gpus[slots[stays]])
        choices: dict[object, list[int]] = {}
        for row in np.flatnonzero(domain < 0).tolist():
            accepted = snapshot.spec(int(slots[row])).gpu_types
            if accepted not in choices:
                choices[accepted] = self._ranked(snapshot, accepted)
            domain[row] = _first_with_room(choices[accepted], left, least[row])
            left[domain[row]] -= least[row]
        return domain

    def speeds(self, snapshot: Snapshot, slots: Ints, domain: Ints) -> Floats:
        """Of the GPU type of its domain, for each job."""
        found = np.ones(len(slots))
        if len(snapshot.gpu_types) <= 1 and self.count == 1:
            return found
        names = snapshot.gpu_types
        for row, slot in enumerate(slots.tolist()):
            spec = snapshot.spec(slot)
            if spec.gpu_types:
                found[row] = spec.type_speed(names[int(self.gpu_type[domain[row]])])
        return found

    def _held(self, snapshot: Snapshot) -> Ints:
        """The domain in which each slot sits; -1: nowhere."""
        seats, jobs = snapshot.seats, snapshot.jobs
        found = np.full(len(jobs.active) + 1, -1, np.int64)
        taken = np.flatnonzero(seats.slot >= 0)
        found[seats.slot[taken]] = self.of_node[seats.node[taken]]
        return found

    def _ranked(self, snapshot: Snapshot, accepted: Sequence[object]) -> list[int]:
        """Domains of accepted types, the fastest first."""
        speed = {accept.type: accept.speed for accept in accepted}  # type: ignore[attr-defined]
        names = [snapshot.gpu_types[int(code)] for code in self.gpu_type]
        rows = range(self.count)
        return sorted(
            (row for row in rows if not speed or names[row] in speed),
            key=lambda row: (-speed.get(names[row], 1.0), row),
        )

    def _sum(self, where: Ints, gpus: Ints) -> Ints:
        return np.bincount(where, gpus, minlength=self.count).astype(np.int64)


def _first_with_room(choices: list[int], left: Ints, least: int) -> int:
    """The first domain that has so much; else the one that has most, and 0 where none will do."""
    for domain in choices:
        if left[domain] >= least:
            return domain
    return max(choices, key=lambda domain: int(left[domain]), default=0)


def _with_quota(supply: Supply, snapshot: Snapshot, slots: Ints, ledger: QuotaLedger) -> Supply:
    """The same, within what each queue was promised and may hold."""
    domains = len(supply.budgets)
    table, jobs = ledger.table, snapshot.jobs
    queues, size = jobs.queue[slots], len(table.ids)
    runs = jobs.state[slots] == State.RUNNING
    own = np.bincount(queues[runs], jobs.width[slots[runs]], minlength=size).astype(np.int64)
    mine = table.sums([int(gpus) for gpus in own])
    used = [ledger.used[step] - mine[step] for step in range(size)]
    promised = [table.guaranteed[step] - used[step] for step in range(size)]
    allowed = [table.caps[step] - used[step] for step in range(size)]
    names, pool = _numbered(supply.pool, queues, ~jobs.preemptible[slots] & table.divided)

    def paid(name: Pool, *, promised_only: bool) -> tuple[int, ...]:
        where, queue, firm = name
        within = [domains + step for step in table.paths[queue]]
        caps = [domains + size + step for step in table.paths[queue] if table.caps[step] < NO_LIMIT]
        return (where, *(within if firm or promised_only else ()), *caps)

    last = tuple(paid(name, promised_only=False) for name in names)
    first = tuple(paid(name, promised_only=True) for name in names)
    stages = (first, last) if table.divided else (last,)
    return replace(supply, pool=pool, budgets=(*supply.budgets, *promised, *allowed), stages=stages)


def _numbered(domain: Ints, queue: Ints, firm: Bools) -> tuple[list[Pool], Ints]:
    """Each combination once, and which of them every job is in."""
    key = (domain * (int(queue.max(initial=0)) + 1) + queue) * 2 + firm
    _, first, pool = np.unique(key, return_index=True, return_inverse=True)
    names = [(int(domain[row]), int(queue[row]), bool(firm[row])) for row in first.tolist()]
    return names, pool
