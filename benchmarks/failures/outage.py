"""Breaker: a store that two hundred jobs need dies for three quarters of an hour.

Every job fails when it next touches the store, within ten minutes; a job that is tried again
touches it soon after its start. The same with few jobs that fail slowly, which is the harder case
for a breaker: it has to see a pattern in less.
"""

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from benchmarks.row import Row, at_least, at_most, exactly, told
from weft.failure.blame import blamed
from weft.failure.breaker import Breaker, Strike, hold, probe_due_seconds, probed, strike
from weft.failure.diagnosis import Ranks, diagnose
from weft.failure.lines import Line
from weft.failure.retry import FRESH, RetryState, Run, Terms, decide
from weft.failure.rulebook import shipped
from weft.model.ids import JobId, NodeId, TenantId

DEAD_SECONDS: Final = 2_700.0
WITHIN_SECONDS: Final = 600.0
USERS: Final = 40
SEEDS, SHORT_SEEDS = 10, 3
ENDS: Final = (
    "RemoteException(SafeModeException): Cannot create file/ckpt-{}. Name node is in safe mode.",
    "java.net.ConnectException: Call From w{0} to nn:8020 failed on connection exception",
    "org.apache.hadoop.hdfs.BlockMissingException: Could not obtain block: BP-{}",
)


@dataclass(slots=True)
class Outage:
    """One world of jobs and a store."""

    jobs: int
    chance: random.Random
    breaker: Breaker = field(default_factory=lambda: Breaker(service="hdfs"))
    states: dict[JobId, RetryState] = field(default_factory=dict)
    resumed: dict[JobId, float] = field(default_factory=dict)
    in_vain: int = 0
    before_open: int = 0
    blames: int = 0
    given_up: int = 0
    told: set[JobId] = field(default_factory=set)
    queue: list[tuple[float, int, str, JobId]] = field(default_factory=list)
    turns: Iterator[int] = field(default_factory=count)

    def run(self) -> "Outage":
        for n in range(self.jobs):
            self._at(self.chance.uniform(0.0, WITHIN_SECONDS), "fail", JobId(f"j{n}"))
        while self.queue:
            now, _, what, job = heapq.heappop(self.queue)
            {"fail": self._fail, "start": self._start, "probe": self._probe}[what](now, job)
        return self

    def _at(self, when: float, what: str, job: JobId) -> None:
        heapq.heappush(self.queue, (when, next(self.turns), what, job))

    def _fail(self, now: float, job: JobId) -> None:
        line = Line(self.chance.choice(ENDS).format(self.chance.randrange(99)), rank=0)
        node = NodeId(f"n{self.chance.randrange(100)}")
        found = diagnose([line], shipped(), Ranks({0: node}, {}))
        run = Run(job=job, at_seconds=now, ran_seconds=30.0, nodes=frozenset({node}))
        self.blames += len(blamed(found, run, self._user(job)))
        was_open = self.breaker.is_open
        self.breaker = strike(self.breaker, Strike(now, job, self._user(job)))
        if self.breaker.is_open and not was_open:
            self._at(probe_due_seconds(self.breaker), "probe", job)
        verdict, self.states[job] = decide(
            found, run, self.states.get(job, FRESH), Terms(max_retries=99)
        )
        if verdict.retry_after_seconds is None:
            self.given_up += 1
        else:
            self._at(now + verdict.retry_after_seconds, "start", job)

    def _start(self, now: float, job: JobId) -> None:
        held = hold(self.breaker, job, self._user(job), now)
        if held.until_seconds is not None:
            self.told.add(job)
            self._at(max(held.until_seconds, now + 0.1), "start", job)
        elif now < DEAD_SECONDS:
            self.in_vain += 1
            self._at(now + self.chance.uniform(5.0, 60.0), "fail", job)
        else:
            self.resumed[job] = now

    def _probe(self, now: float, job: JobId) -> None:
        self.breaker = probed(self.breaker, now, answers=now >= DEAD_SECONDS)
        if self.breaker.is_open:
            self._at(probe_due_seconds(self.breaker), "probe", job)

    def _user(self, job: JobId) -> TenantId:
        return TenantId(f"u{int(job[1:]) % USERS}")


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """The great outage with its bars, the slow one told."""
    seeds = range(SHORT_SEEDS if short else SEEDS)
    great = [Outage(200, random.Random(seed)).run() for seed in seeds]
    yield at_most("restarts that reach a dead store, 200 jobs", _most(great), "restarts", 10.0)
    yield exactly("… blames of nodes", sum(one.blames for one in great), "blames", 0)
    yield exactly("… jobs given up", sum(one.given_up for one in great), "jobs", 0)
    yield exactly(
        "… that came back without having been told what they waited for",
        sum(len(set(one.resumed) - one.told) for one in great),
        "jobs",
        0,
    )
    last = max(max(one.resumed.values()) for one in great) - DEAD_SECONDS
    yield at_most("… the last one back after the store answers", last, "s", 120.0)
    spread = min(max(one.resumed.values()) - min(one.resumed.values()) for one in great)
    yield at_least("… spread over", spread, "s", 60.0)
    for jobs in (8, 6):
        slow = [Outage(jobs, random.Random(seed)).run() for seed in seeds]
        yield at_most(f"restarts in vain, {jobs} jobs", _most(slow), "restarts", 10.0)
    few = [Outage(4, random.Random(seed)).run() for seed in seeds]
    yield told("… 4 jobs: too few to open it, each backs off alone", _most(few), "restarts")


def _most(outages: list[Outage]) -> float:
    return float(max(one.in_vain for one in outages))
