"""Nodes: a bad one among a hundred, a bad job on good nodes, and lemons among two thousand.

The bad node is found without any word of its kernel: half of its failures show on one rank, the
others only as a collective that did not end, which says no more than that one node of the gang may
be at fault. Around it jobs fail for reasons of their own.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from benchmarks.row import Row, at_least, at_most, exactly, told
from weft.failure.blame import (
    DAY_SECONDS,
    Blame,
    Blames,
    Case,
    blamed,
    case,
    is_lemon,
    laid,
    quarantined,
)
from weft.failure.classes import NodeAction
from weft.failure.diagnosis import Diagnosis, Ranks, diagnose
from weft.failure.lines import Line
from weft.failure.retry import Run
from weft.failure.rulebook import shipped
from weft.model.ids import JobId, NodeId, TenantId

NODES: Final = 100
USERS: Final = 20
MOST_JOBS: Final = 20_000
GAP_SECONDS: Final = 60.0
SEEDS, SHORT_SEEDS = 200, 30
BAD: Final = NodeId("n0")
BAD_SHARE: Final = 0.3  # of its gangs fail
SHOWN_SHARE: Final = 0.5
OWN_SHARE: Final = 0.15
SHOWN: Final = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
NOTICED: Final = (
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum={}, OpType=ALLREDUCE)"
)
CRASHED: Final = "Segmentation fault (core dumped) in ext_{}.so"
WRONG: Final = "KeyError: 'key_{}'"

LEMON_NODES: Final = 2_000
LEMON_SHARE: Final = 0.015
BASE_PER_DAY: Final = 6.5 / 1_000
LEMON_TIMES: Final = 30.0
DAYS: Final = 28
LEMON_SEEDS, SHORT_LEMON_SEEDS = 20, 4
SOUR_TIMES: Final = 160.0  # 1.5 % of the nodes cause 71 % of all failures
LARGE_NODES: Final = 64
WEEK: Final = 7
MOST_OF_FAILURES: Final = 40.0


@dataclass(slots=True)
class Search:
    """Jobs on nodes until the bad one is cordoned."""

    chance: random.Random
    blames: Blames = field(default_factory=Blames)
    failed: int = 0
    users: set[TenantId] = field(default_factory=set)
    innocent: set[NodeId] = field(default_factory=set)

    def run(self) -> "Search":
        for number in range(MOST_JOBS):
            if self._job(number):
                break
        return self

    def _job(self, number: int) -> bool:
        """Whether the bad node is found with this job."""
        gang = self.chance.sample(range(NODES), self.chance.choice((1, 1, 2, 2, 4)))
        user = TenantId(f"u{self.chance.randrange(USERS)}")
        nodes = {rank: NodeId(f"n{one}") for rank, one in enumerate(gang)}
        found = self._ends(nodes, user)
        if found is None:
            return False
        now = number * GAP_SECONDS
        ended = Run(
            job=JobId(f"j{number}"),
            at_seconds=now,
            ran_seconds=self.chance.uniform(120.0, 9_000.0),
            nodes=frozenset(nodes.values()),
        )
        self.blames = laid(self.blames, blamed(found, ended, user), now)
        return self._looked(nodes, now)

    def _ends(self, nodes: dict[int, NodeId], user: TenantId) -> Diagnosis | None:
        """How a job ends: by the bad node, by its own fault, or well."""
        bad = next((rank for rank, node in nodes.items() if node == BAD), None)
        if bad is not None and self.chance.random() < BAD_SHARE:
            self.failed += 1
            self.users.add(user)
            alone = len(nodes) == 1 or self.chance.random() < SHOWN_SHARE
            rank = bad if alone else self.chance.randrange(len(nodes))
            return _diagnosed(SHOWN if alone else NOTICED, rank, nodes, self.chance)
        if self.chance.random() < OWN_SHARE:
            own = self.chance.choices((WRONG, CRASHED, NOTICED), (0.8, 0.15, 0.05))[0]
            return _diagnosed(own, self.chance.randrange(len(nodes)), nodes, self.chance, user)
        return None

    def _looked(self, nodes: dict[int, NodeId], now: float) -> bool:
        cases = [case(self.blames, node, now) for node in nodes.values()]
        cordoned = {one.node for one in cases if one.action >= NodeAction.CORDON}
        self.innocent |= cordoned - {BAD}
        return BAD in cordoned


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """The bad node, the bad job, the bad user, the lemons."""
    seeds = SHORT_SEEDS if short else SEEDS
    found = [Search(random.Random(seed)).run() for seed in range(seeds)]
    failed = median(one.failed for one in found)
    yield at_most("jobs that fail before a bad node is cordoned, median", failed, "jobs", 3.0)
    users = median(len(one.users) for one in found)
    yield at_least("… of so many users", users, "users", 2.0)
    yield told("… at worst", max(one.failed for one in found), "jobs")
    innocent = sum(len(one.innocent) for one in found) / seeds
    yield told("… good nodes sent to a check meanwhile, mean", innocent, "nodes")
    yield exactly("nodes cordoned for a bad job that fails ten times", _bad_job(), "nodes", 0)
    yield exactly("… for a user with a bug in ten jobs", _bad_user(), "nodes", 0)
    lemon_seeds = SHORT_LEMON_SEEDS if short else LEMON_SEEDS
    yield from _lemons(lemon_seeds)
    yield _large_jobs(lemon_seeds)


def _diagnosed(
    text: str,
    rank: int,
    nodes: dict[int, NodeId],
    chance: random.Random,
    user: TenantId | None = None,
) -> Diagnosis:
    own = f"of_{user}" if user else str(chance.randrange(999))
    return diagnose([Line(text.format(own), rank=rank)], shipped(), Ranks(nodes, {}))


def _bad_job() -> int:
    chance, blames = random.Random(3), Blames()
    for attempt in range(10):
        node = NodeId(f"n{chance.randrange(8)}")
        found = _diagnosed(CRASHED, 0, {0: node}, chance)
        ended = Run(job=JobId("bad"), at_seconds=attempt * 300.0, ran_seconds=99.0)
        blames = laid(blames, blamed(found, ended, TenantId("u")), attempt * 300.0)
    return _cordoned(blames, 3_000.0)


def _bad_user() -> int:
    chance, blames = random.Random(3), Blames()
    user = TenantId("u")
    for number in range(10):
        node = NodeId(f"n{chance.randrange(4)}")
        found = _diagnosed(CRASHED, 0, {0: node}, chance, user)
        ended = Run(job=JobId(f"j{number}"), at_seconds=number * 300.0, ran_seconds=99.0)
        blames = laid(blames, blamed(found, ended, user), number * 300.0)
    return _cordoned(blames, 3_000.0)


def _cordoned(blames: Blames, now: float) -> int:
    nodes = {one.node for one in blames.entries}
    return sum(case(blames, node, now).action >= NodeAction.CORDON for node in nodes)


# --- lemons ---------------------------------------------------------------------------------------


def _lemons(seeds: int) -> Iterator[Row]:
    hits = named = lemons = 0
    most = 0.0
    for seed in range(seeds):
        truth, found, aside = _four_weeks(np.random.default_rng(seed))
        hits += len(found & truth)
        named += len(found)
        lemons += len(truth)
        most = max(most, aside / LEMON_NODES)
    yield at_least("lemons found, 2,000 nodes over 28 days", 100.0 * hits / lemons, "%", 80.0)
    yield at_least("… of those named", 100.0 * hits / named, "%", 85.0)
    yield at_most("… nodes set aside at once", 100.0 * most, "%", 5.0)


def _four_weeks(chance: np.random.Generator) -> tuple[set[NodeId], set[NodeId], int]:
    """The lemons there are, those that are found, and how many nodes were set aside."""
    nodes = [NodeId(f"n{n}") for n in range(LEMON_NODES)]
    bad = chance.choice(LEMON_NODES, int(LEMON_NODES * LEMON_SHARE), replace=False)
    rate = np.full(LEMON_NODES, BASE_PER_DAY)
    rate[bad] *= LEMON_TIMES
    blames, aside = Blames(), set[NodeId]()
    for day in range(DAYS):
        now = (day + 1) * DAY_SECONDS
        failures = np.flatnonzero(chance.random(LEMON_NODES) < -np.expm1(-rate))
        struck = [nodes[n] for n in failures if nodes[n] not in aside]
        blames = laid(blames, (_blame(node, day, now) for node in struck), now)
        lemons = [Case(n, NodeAction.QUARANTINE, "") for n in struck if is_lemon(blames, n, now)]
        aside.update(quarantined(lemons, nodes, aside).nodes)
    return {nodes[n] for n in bad}, aside, len(aside)


def _large_jobs(seeds: int) -> Row:
    """Gangs of 512 GPUs for a day each, on nodes drawn anew: how many fail in the second week."""
    with_rule, without = (
        sum(_second_week(np.random.default_rng(seed), rule=rule) for seed in range(seeds)) / seeds
        for rule in (True, False)
    )
    return at_most(
        "failures of runs with 512 GPUs among lemons, second week, of those without the rule",
        100.0 * with_rule / without,
        "%",
        MOST_OF_FAILURES,
        peer="failures a run, without",
        peer_value=without,
    )


def _second_week(chance: np.random.Generator, *, rule: bool) -> float:
    """Failures for each run, where a lemon is set aside or nobody is."""
    nodes = [NodeId(f"n{n}") for n in range(LEMON_NODES)]
    rate = np.full(LEMON_NODES, BASE_PER_DAY)
    rate[chance.choice(LEMON_NODES, int(LEMON_NODES * LEMON_SHARE), replace=False)] *= SOUR_TIMES
    blames, aside, failures, runs = Blames(), set[NodeId](), 0, 0
    for day in range(2 * WEEK):
        now = (day + 1) * DAY_SECONDS
        there = np.array([n for n in range(LEMON_NODES) if nodes[n] not in aside])
        gangs = len(there) // LARGE_NODES
        used = chance.permutation(there)[: gangs * LARGE_NODES]
        counts = chance.poisson(rate[used])
        failures += int(counts.sum()) * (day >= WEEK)
        runs += gangs * (day >= WEEK)
        struck = [nodes[n] for n, times in zip(used, counts, strict=True) for _ in range(times)]
        blames = laid(
            blames, (_blame(node, day * 99 + k, now) for k, node in enumerate(struck)), now
        )
        lemons = [
            Case(n, NodeAction.QUARANTINE, "")
            for n in dict.fromkeys(struck)
            if rule and is_lemon(blames, n, now)
        ]
        aside.update(quarantined(lemons, nodes, aside).nodes)
    return failures / runs


def _blame(node: NodeId, day: int, now: float) -> Blame:
    job = JobId(f"{node}-{day}")
    user = TenantId(f"u{day % USERS}")
    return Blame(node=node, at_seconds=now - 1.0, job=job, user=user, fingerprint=job)
