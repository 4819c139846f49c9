"""Hardships beyond plain faults: nodes that flap or are cut off one way, processes that stop for a
while, many submissions at once, and clocks that are set.

A brain's time only goes on, since worlds count it by a clock that nobody sets. But the next one
begins by the clock on the wall, and finds what the last one wrote down in its future, or long ago.

Drawn apart from everything else, so that a seed without them is the world that it always was.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

from weft.brain.event import Event, NodeAdded, NodeLost
from weft.failure.health import Health
from weft.failure.retry import RetryState
from weft.model.cluster import Cluster
from weft.model.ids import JobId, NodeId
from weft.model.job import Job
from weft.model.request import Width
from weft.model.truth import Work

FIRST_SEED = 1_000
SHARE_OF_WORLDS = 0.3


class Hardship(StrEnum):
    """What is to be met in worlds of this kind."""

    FLAPPING = "node flaps"
    CUT_OFF = "node cut off one way"
    STOPPED = "processes stopped for a while"
    BURST = "burst of submissions"
    CLOCK = "clock set while nobody decides"


@dataclass(frozen=True, slots=True)
class CutOff:
    """What is told of jobs on this node arrives when the time is over; what it is told arrives."""

    node: NodeId
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Hardships:
    """What a seed decides of them."""

    kinds: frozenset[Hardship] = frozenset()
    cut_off: tuple[CutOff, ...] = ()
    stops: tuple[tuple[float, float], ...] = ()
    restarts: tuple[float, ...] = ()  # of the brain, by another clock


NONE = Hardships()


def hardships(seed: int, cluster: Cluster, until: float) -> Hardships:
    rng, kinds = Random(f"hardships {seed}"), kinds_of(seed)
    cut_off = stops = 0
    if Hardship.CUT_OFF in kinds:
        cut_off = rng.randint(1, 6)
    if Hardship.STOPPED in kinds:
        stops = rng.randint(1, 12)
    return Hardships(
        kinds,
        tuple(_cut_off(rng, cluster, until) for _ in range(cut_off)),
        tuple(sorted((rng.uniform(0.0, until), rng.random()) for _ in range(stops))),
        _restarts(seed, until) if Hardship.CLOCK in kinds else (),
    )


def _restarts(seed: int, until: float) -> tuple[float, ...]:
    rng = Random(f"restarts {seed}")
    return tuple(sorted(rng.uniform(0.0, until) for _ in range(rng.randint(1, 4))))


def kinds_of(seed: int) -> frozenset[Hardship]:
    """Most of them in some of the worlds, none in the others."""
    rng = Random(f"bitter days {seed}")
    if seed < FIRST_SEED or rng.random() >= SHARE_OF_WORLDS:
        return frozenset()
    return frozenset(kind for kind in Hardship if rng.random() < 0.6)


def _cut_off(rng: Random, cluster: Cluster, until: float) -> CutOff:
    begin = rng.uniform(0.0, until)
    end = min(begin + rng.choice((5.0, 30.0, 120.0)), until)
    return CutOff(rng.choice(cluster.nodes).id, begin, end)


def flapping(seed: int, cluster: Cluster, until: float) -> Iterator[Event]:
    """One node goes and comes again and again within a minute or two."""
    if Hardship.FLAPPING not in kinds_of(seed):
        return
    rng = Random(f"flapping {seed}")
    node, at = cluster.nodes[0], rng.uniform(0.0, until)
    for _ in range(rng.randint(3, 10)):
        back = at + rng.choice((0.0, 1.0, 10.0))
        if back >= until:
            return
        yield NodeLost(at, node.id)
        yield NodeAdded(back, node)
        at = back + rng.choice((0.0, 1.0, 10.0))


def with_burst(seed: int, jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    """Many small jobs of one queue in the same second."""
    if Hardship.BURST not in kinds_of(seed) or not jobs:
        return jobs
    rng = Random(f"burst {seed}")
    like = rng.choice(jobs)
    return (*jobs, *(_small(rng, like, number) for number in range(rng.randint(30, 120))))


def clock_set(seed: int, times: int) -> float:
    """By how much what is on record comes later than it did; 0 where nobody sets clocks."""
    if Hardship.CLOCK not in kinds_of(seed):
        return 0.0
    choices = (-86_400.0, -3_600.0, -60.0, 0.0, 60.0, 3_600.0, 86_400.0)
    return Random(f"clock {seed} {times}").choice(choices)


def moved(health: Health, seconds: float) -> Health:
    """What is on record, by a clock that was set back by so much."""

    def later(then: float | None) -> float | None:
        return None if then is None else then + seconds

    told = health.told()
    for blame in told["blames"]:
        blame[1] += seconds
    for breaker in told["breakers"]:
        for strike in breaker["strikes"]:
            strike[0] += seconds
        for name in ("opened_seconds", "probed_seconds", "answered_seconds", "heard_seconds"):
            breaker[name] = later(breaker[name])
    for aside in told["aside"]:
        aside[1], aside[2] = aside[1] + seconds, aside[2] + seconds
    return Health.read(told)


def no_later(health: Health, now: float) -> Health:
    """What a brain may believe of it: nothing has happened after now, and a check is not far."""
    told = health.told()
    for blame in told["blames"]:
        blame[1] = min(blame[1], now)
    for breaker in told["breakers"]:
        for strike in breaker["strikes"]:
            strike[0] = min(strike[0], now)
        for name in ("opened_seconds", "probed_seconds", "answered_seconds", "heard_seconds"):
            breaker[name] = None if breaker[name] is None else min(breaker[name], now)
    for aside in told["aside"]:
        rest = min(600.0 * 2.0 ** aside[4], 4 * 3_600.0)
        aside[1], aside[2] = min(aside[1], now), min(aside[2], now + rest)
    return Health.read(told)


def moved_retry(retry: RetryState, seconds: float) -> RetryState:
    return replace(retry, spent=tuple((what, at + seconds) for what, at in retry.spent))


def _small(rng: Random, like: Job, number: int) -> Job:
    return Job.told(
        id=JobId(f"burst{number}"),
        width=Width.fixed(1),
        work=Work(rng.choice((0.0, 5.0, 60.0))),
        submit_seconds=like.submit_seconds,
        tenant=like.tenant,
        queue=like.request.queue,
        max_retries=rng.choice((0, 3)),
        checkpoint_interval_seconds=rng.choice((0.0, 20.0)),
    )
