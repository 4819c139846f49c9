"""What a term tells Prometheus: decisions as they are made, and now and then how things stand."""

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from weft.brain.state.brain_state import BrainState
from weft.brain.state.waits import REASONS
from weft.failure.health import Health
from weft.kube.client.cache import Cache
from weft.kube.metrics import Metrics
from weft.kube.operator.observation.node_inventory import NodeInventory
from weft.kube.operator.status.patches import title
from weft.model.decision import Decision
from weft.model.state import State


def tell_decision(decision: Decision, metrics: Metrics) -> None:
    """What one round decided about single jobs."""
    reclaimed = sum(preemption.reclaim for preemption in decision.preemptions)
    metrics.decided("started", len(decision.grants))
    metrics.decided("preempted", len(decision.preemptions) - reclaimed)
    metrics.decided("reclaimed", reclaimed)
    metrics.decided("resized", len(decision.resizes))
    metrics.decided("moved", len(decision.moves))


def measure(state: BrainState, inventory: NodeInventory, metrics: Metrics) -> None:
    """Jobs by state and queue, GPUs by what holds them."""
    size, jobs = state.size, state.jobs
    active = jobs.active[:size]
    names = state.quota.ids
    pairs = zip(jobs.state[:size][active].tolist(), jobs.queue[:size][active].tolist(), strict=True)
    counts = Counter(
        (title(State(where)), str(names[row]) if row >= 0 else "") for where, row in pairs
    )
    metrics.jobs_are(counts)
    rows = len(state.node_ids)
    present = state.nodes.present[:rows]
    total = int(state.nodes.gpus[:rows][present].sum())
    held = sum(sum(seats.values()) for seats in state.seating.held_on)
    metrics.gpus_are(
        free=max(total - held, 0),
        held=held,
        foreign=inventory.foreign_gpus(),
        lost=inventory.lost_gpus(),
    )


def tell_health(health: Health, metrics: Metrics, unfit: int = 0) -> None:
    """Services that are held open, nodes that are set aside, and those whose probes fail."""
    lemons = sum(one.lemon for one in health.aside)
    metrics.health_is(
        breakers=sum(one.is_open for one in health.breakers),
        checked=len(health.aside) - lemons,
        lemons=lemons,
        people=len(health.for_people),
        probes=unfit,
    )


def tell_waits(state: BrainState, metrics: Metrics, seconds: float) -> None:
    """So many seconds have gone by: each job that waits has waited them for its present cause."""
    size, jobs = state.size, state.jobs
    waits = jobs.active[:size] & (jobs.state[:size] <= State.ADMITTED)
    rows, counts = np.unique(jobs.reason[:size][waits], return_counts=True)
    for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
        if row:
            metrics.waited(REASONS[row - 1].cause.label, seconds * count)


def tell_lags(caches: Iterable[Cache[Any]], metrics: Metrics) -> None:
    """Since when each kind of object was not heard of; the longest, where two caches share one."""
    heard: dict[str, float] = {}
    for cache in caches:
        heard[cache.kind] = min(heard.get(cache.kind, cache.heard_at), cache.heard_at)
    for kind, at in heard.items():
        metrics.watch_lags(kind, time.monotonic() - at)
