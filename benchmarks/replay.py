"""Replay: all 82,247 jobs of the Philly list, (a) on Philly's own nodes, (b) on 52 × 8 GPUs.

Those are the part `clusters`; the part `speed` is what a replay costs (`benchmarks.speed`). Every
run has a process of its own, on one core, with the invariants on. Nobody may be lost or run
twice, no waiting second may go without a cause, and the result may not depend on the hash seed.
Times are bars only for the whole list; what must be right must be right on a prefix as well. The
bare loop (`bare_las`) runs in the same process as the replay it is held against, and the ratio is
one of processor seconds, so that a busy machine slows neither side alone.
"""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import speed
from benchmarks.replay_one import Outcome, Spec, in_a_process, prefix
from benchmarks.row import Row, at_least, at_most, below_peer, broken, exactly, told
from weft.policy.place.patience import PATIENT

ALL_JOBS = 82_247
SHORT_JOBS = 4_000
RECIPES = ("fifo", "backfill", "srtf", "las")
LOCALITY_JOBS = 30_000
LOCALITY_LOAD = 0.8

WALL_BARS_SECONDS = {"a": 30.0, "b": 60.0}
# On (a) hardly anybody ever waits, so the bare loop has nothing to rank: there the ratio is told.
RATIO_BARS = {"b": 3.0}
PEAK_BAR_MIB = 1_024.0
WORK_BAR = 1e-6
WAITS_BAR_PERCENT = 0.1
ONE_NODE_BAR_PERCENT = 95.0
TWO_NODE_BAR = 2.5
SINGLE_DELAY_BAR = 1.10


@dataclass(frozen=True, slots=True)
class Plan:
    """Every run of the suite, by name; `seed` is the hash seed of its process."""

    name: str
    spec: Spec
    seed: int = 0


def rows(traces: Path, *, short: bool = False, only: tuple[str, ...] = ()) -> Iterator[Row]:
    """One part after the other."""
    parts = {"clusters": _clusters, "speed": speed.rows}
    for part in only or tuple(parts):
        yield from parts[part](traces, short=short)


def _clusters(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """Run everything, then judge it."""
    with TemporaryDirectory() as scratch:
        listing = traces / "jobs" / "philly_pollux.csv.gz"
        count = ALL_JOBS
        if short:
            listing, count = prefix(listing, Path(scratch), SHORT_JOBS), SHORT_JOBS
        plans = _plans(str(listing), str(traces / "jobs" / "nodes_philly.csv"))
        outcomes: dict[str, Outcome] = {}
        # Two at a time only where no time is judged.
        with ThreadPoolExecutor(2 if short else 1) as pool:
            for plan, outcome in zip(plans, pool.map(_run, plans), strict=True):
                if isinstance(outcome, str):
                    yield broken(f"{plan.name} runs", outcome)
                else:
                    outcomes[plan.name] = outcome
    yield from _judged(outcomes, count, timed=not short)


def _plans(listing: str, nodes: str) -> list[Plan]:
    def spec(cluster: str, recipe: str, *, bare: bool = False, first: int | None = None) -> Spec:
        return Spec(jobs=listing, cluster=cluster, recipe=recipe, bare=bare, first=first)

    plans = [
        Plan(f"{name}/{recipe}", spec(cluster, recipe, bare=recipe == "las"))
        for name, cluster in (("a", nodes), ("b", "52x8"))
        for recipe in RECIPES
    ]
    unreserved = Spec(
        jobs=listing, cluster="52x8", recipe="backfill", parameters=(("reserve", False),)
    )
    at_load = f"load:{LOCALITY_LOAD}"
    return [
        *plans,
        Plan("b/las again", spec("52x8", "las"), seed=4711),
        Plan("b/backfill unreserved", unreserved),
        Plan("locality/backfill", spec(at_load, "backfill", first=LOCALITY_JOBS)),
        Plan("locality/las", spec(at_load, "las", first=LOCALITY_JOBS)),
    ]


def _run(plan: Plan) -> Outcome | str:
    print(f"  {plan.name} …", file=sys.stderr, flush=True)
    return in_a_process(plan.spec, seed=plan.seed)


# --- verdicts -------------------------------------------------------------------------------------


def _judged(outcomes: dict[str, Outcome], count: int, *, timed: bool) -> Iterator[Row]:
    """All rows for which there are outcomes; runs that failed have said so already."""
    for cluster in WALL_BARS_SECONDS:
        for recipe in RECIPES:
            outcome = outcomes.get(f"{cluster}/{recipe}")
            if outcome is not None:
                yield from _right(f"{cluster}/{recipe}", outcome, count)
                yield from _cost(cluster, recipe, outcome, timed=timed)
    pairs: tuple[tuple[str, str, Callable[[Outcome, Outcome], Iterator[Row]]], ...] = (
        ("b/las", "b/las again", _same_hash),
        ("b/backfill", "b/backfill unreserved", partial(_reservation, timed=timed)),
    )
    for name, other, judge in pairs:
        if name in outcomes and other in outcomes:
            yield from judge(outcomes[name], outcomes[other])
    for name in ("locality/backfill", "locality/las"):
        if name in outcomes:
            yield from _locality(name, outcomes[name])


def _right(name: str, outcome: Outcome, count: int) -> Iterator[Row]:
    """Nobody lost, nobody twice, all work done, every wait explained."""
    yield exactly(f"{name} jobs finished exactly once", outcome.finished, "jobs", count)
    yield exactly(f"{name} jobs run twice or ended unstarted", outcome.doubles, "jobs", 0)
    work = "largest relative error"
    yield at_most(f"{name} work done at its placements", outcome.worst_work_error, work, WORK_BAR)
    yield at_most(f"{name} service charged", outcome.worst_service_error, work, WORK_BAR)
    yield told(f"{name} rounds whose every wait had a reason", outcome.rounds, "rounds")
    waited = max(outcome.waiting_seconds, 1.0)
    off = 100.0 * abs(outcome.booked_seconds - outcome.waiting_seconds) / waited
    yield at_most(
        f"{name} booked causes against time waited",
        off,
        "%",
        WAITS_BAR_PERCENT,
        peer="waited, h",
        peer_value=outcome.waiting_seconds / 3600,
    )
    yield told(f"{name} worst single booking", outcome.worst_wait_error_seconds, "s")


def _cost(cluster: str, recipe: str, outcome: Outcome, *, timed: bool) -> Iterator[Row]:
    name = f"{cluster}/{recipe}"
    wall = outcome.read_seconds + outcome.wall_seconds
    label, peer, cpu = f"{name} wall, reading included", "processor, s", outcome.cpu_seconds
    if timed and recipe == "las":
        bar = WALL_BARS_SECONDS[cluster]
        yield at_most(label, wall, "s", bar, peer=peer, peer_value=cpu)
    else:
        yield told(label, wall, "s", peer=peer, peer_value=cpu)
    yield at_most(f"{name} peak memory", outcome.peak_mib, "MiB", PEAK_BAR_MIB)
    if outcome.bare_cpu_seconds:
        yield from _beside_bare(cluster, outcome, timed=timed)
    else:
        yield told(f"{name} mean completion time", outcome.mean_jct_seconds / 3600, "h")


def _beside_bare(cluster: str, outcome: Outcome, *, timed: bool) -> Iterator[Row]:
    assert outcome.bare_cpu_seconds is not None and outcome.bare_mean_jct_seconds is not None
    ratio = outcome.cpu_seconds / outcome.bare_cpu_seconds
    name, bare = f"{cluster}/las against the bare loop", outcome.bare_cpu_seconds
    if timed and cluster in RATIO_BARS:
        yield at_most(name, ratio, "times", RATIO_BARS[cluster], peer="bare, s", peer_value=bare)
    else:
        yield told(name, ratio, "times", peer="bare, s", peer_value=bare)
    yield told(
        f"{cluster}/las mean completion time",
        outcome.mean_jct_seconds / 3600,
        "h",
        peer="bare, h",
        peer_value=outcome.bare_mean_jct_seconds / 3600,
    )


def _same_hash(outcome: Outcome, again: Outcome) -> Iterator[Row]:
    yield Row(
        name="b/las journal in two processes",
        value=outcome.journal_hash,
        unit="hash",
        bar="= peer",
        holds=outcome.journal_hash == again.journal_hash,
        peer="another PYTHONHASHSEED",
        peer_value=again.journal_hash,
    )


def _reservation(outcome: Outcome, without: Outcome, *, timed: bool) -> Iterator[Row]:
    """What a reservation does for the wide, and what it costs the narrow.

    Judged on the whole list: a prefix has too few wide jobs for a 95th percentile.
    """
    wide = "b/backfill p95 start delay beyond 8 GPUs"
    value, before = outcome.wide_p95_delay_seconds / 3600, without.wide_p95_delay_seconds / 3600
    single = "b/backfill mean start delay of 1 GPU, times"
    ratio = outcome.single_mean_delay_seconds / max(without.single_mean_delay_seconds, 1e-9)
    hours = without.single_mean_delay_seconds / 3600
    if timed:
        yield below_peer(wide, value, "h", peer="unreserved, h", peer_value=before)
        yield at_most(
            single, ratio, "times", SINGLE_DELAY_BAR, peer="unreserved, h", peer_value=hours
        )
    else:
        yield told(wide, value, "h", peer="unreserved, h", peer_value=before)
        yield told(single, ratio, "times", peer="unreserved, h", peer_value=hours)


def _locality(name: str, outcome: Outcome) -> Iterator[Row]:
    """8-GPU nodes at 80 % load. Judged for backfill; las moves jobs about, so it is told."""
    yield told(f"{name} GPUs held", 100 * outcome.busy_share, f"% of {outcome.gpus:,d}")
    share = 100 * outcome.node_jobs_on_one_node
    label, label_two = f"{name} 8-GPU starts on one node", f"{name} nodes of 16-GPU jobs, mean"
    if name.endswith("backfill"):
        yield at_least(label, share, "%", ONE_NODE_BAR_PERCENT)
        yield at_most(label_two, outcome.two_node_jobs_mean_nodes, "nodes", TWO_NODE_BAR)
    else:
        yield told(label, share, "%")
        yield told(label_two, outcome.two_node_jobs_mean_nodes, "nodes")
    longest = outcome.longest_locality_wait_seconds
    yield at_most(f"{name} longest wait for locality", longest, "s", PATIENT.cap_seconds)
    yield exactly(f"{name} waits beyond (s − 1) T", outcome.over_locality_bound, "jobs", 0)
