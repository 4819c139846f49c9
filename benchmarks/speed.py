"""Speed: what a replay of the whole Philly list costs, with journal and invariants on.

Processor seconds of one process, beside those of the bare loop of the same rule, which knows no
nodes, no messages and no checks. At 90 % load there are as many nodes of eight GPUs as the list
keeps busy to that share; on Philly's own nodes it keeps an eighth of them busy.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.replay_one import Outcome, Spec, in_a_process, prefix
from benchmarks.row import Row, aims_at, broken, exactly, told, with_aim

LOADED, PHILLYS = "90 % load", "Philly's nodes"
PEAK_AIM_MIB = 250.0
SHORT_JOBS = 2_000


class Trial(NamedTuple):
    """A recipe on a cluster, and the processor seconds that it should take at most."""

    recipe: str
    cluster: str
    aim_seconds: float


TRIALS = (
    Trial("las", LOADED, 30.0),
    Trial("las", PHILLYS, 12.0),
    Trial("weave", LOADED, 200.0),
)


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """In short the first jobs alone, whose time says nothing."""
    clusters = {LOADED: "load:0.9", PHILLYS: str(traces / "jobs" / "nodes_philly.csv")}
    with TemporaryDirectory() as scratch:
        listing = traces / "jobs" / "philly_pollux.csv.gz"
        listing = prefix(listing, Path(scratch), SHORT_JOBS) if short else listing
        for trial in TRIALS:
            name = f"`{trial.recipe}`, {trial.cluster}"
            print(f"  {name} …", file=sys.stderr, flush=True)
            outcome = in_a_process(
                Spec(
                    jobs=str(listing),
                    cluster=clusters[trial.cluster],
                    recipe=trial.recipe,
                    bare=trial.recipe == "las",
                )
            )
            if isinstance(outcome, str):
                yield broken(f"{name}: runs", outcome)
            else:
                yield from _told(name, outcome, None if short else trial.aim_seconds)


def _told(name: str, outcome: Outcome, aim_seconds: float | None) -> Iterator[Row]:
    yield exactly(f"{name}: jobs finished exactly once", outcome.finished, "jobs", outcome.jobs)
    took = told(
        f"{name}: processor time",
        outcome.cpu_seconds,
        "s",
        peer="by the clock, s",
        peer_value=outcome.wall_seconds,
    )
    yield took if aim_seconds is None else with_aim(took, aim_seconds)
    if outcome.bare_cpu_seconds:
        over = outcome.cpu_seconds / outcome.bare_cpu_seconds
        bare = outcome.bare_cpu_seconds
        yield told(f"{name}: over the bare loop", over, "times", peer="bare, s", peer_value=bare)
    yield aims_at(f"{name}: peak memory", outcome.peak_mib, "MiB", PEAK_AIM_MIB)
    yield told(f"{name}: rounds", outcome.rounds, "", peer="events", peer_value=outcome.events)
