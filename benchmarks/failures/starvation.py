"""Starvation: how long the widest gangs of Philly wait for their first start, and who pays for it.

All 82,247 jobs on the nodes that they ran on, and the first 20,000 on as many nodes of 8 GPUs as
they keep busy for four fifths of the time. Beside it `backfill` without reservations, in which
whoever fits goes first and a wide gang may wait for ever.
"""

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from benchmarks.apart import apart
from benchmarks.replay_one import Outcome, Spec
from benchmarks.row import Row, at_most, broken

HOUR: Final = 3_600.0
REAL_HOURS: Final = 7.4
MOST_HOURS: Final = 4.0
MOST_TIMES: Final = 1.10
LONGEST_SECONDS: Final = 1_800.0
SHORT_JOBS: Final = 2_000
BUSY_JOBS: Final = 20_000
LEAST_DELAY_SECONDS: Final = 1.0  # below it a ratio of delays tells nothing
RECIPES: Final = ("backfill", "weave")


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """Judged on Philly's own nodes; on a cluster that is busy it is what should be reached."""
    jobs = str(traces / "jobs" / "philly_pollux.csv.gz")
    nodes = str(traces / "jobs" / "nodes_philly.csv")
    first = SHORT_JOBS if short else None
    own = Spec(jobs=jobs, cluster=nodes, recipe="backfill", first=first)
    busy = replace(own, cluster="load:0.8", first=first or BUSY_JOBS)
    for where, spec in (("Philly's nodes", own), ("8-GPU nodes at 80 % load", busy)):
        plain = _run(replace(spec, parameters=(("reserve", False),)))
        for recipe in RECIPES:
            found = _run(replace(spec, recipe=recipe))
            aim = short or spec is busy
            yield from (replace(row, aim=aim) for row in _judged(where, recipe, found, plain))


def _run(spec: Spec) -> Outcome | str:
    found = apart("benchmarks.replay_one", asdict(spec), at_most_seconds=LONGEST_SECONDS)
    return found if isinstance(found, str) else Outcome(**found)


def _judged(where: str, recipe: str, found: Outcome | str, plain: Outcome | str) -> Iterator[Row]:
    if isinstance(found, str) or isinstance(plain, str):
        yield broken(f"{where}, `{recipe}` runs", str(found if isinstance(found, str) else plain))
        return
    yield at_most(
        f"{where}, `{recipe}`: p95 start delay of jobs of more than 8 GPUs",
        found.wide_p95_delay_seconds / HOUR,
        "h",
        MOST_HOURS,
        peer="at Philly",
        peer_value=REAL_HOURS,
    )
    least = max(plain.single_mean_delay_seconds, LEAST_DELAY_SECONDS)
    yield at_most(
        f"{where}, `{recipe}`: mean start delay of 1-GPU jobs, of plain backfill's",
        max(found.single_mean_delay_seconds, LEAST_DELAY_SECONDS) / least,
        "×",
        MOST_TIMES,
        peer="plain, s",
        peer_value=plain.single_mean_delay_seconds,
    )
