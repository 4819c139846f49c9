"""Philly: the whole list of 82,247 jobs with curves, on 52 nodes of 8 GPUs, under `afs-l`.

As in the suite `replay`: a process of its own, on one core, invariants on, time counted from the
jobs in memory to the last event. Jobs wider than any of the nine models keep their width. Beside it
the same with a round per minute at most (as Pollux; the default is one in five seconds), and `srtf`
with each job at the width it asked for.

`python -m benchmarks.elastic.philly '{"traces": …, "recipe": …, "first": …}'` is that process.
"""

import json
import resource
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter, process_time

from benchmarks.apart import apart
from benchmarks.elastic.trials import TimedBrain
from benchmarks.elastic.workloads import afs_curves, philly, with_curves
from benchmarks.row import Row, aims_at, broken, exactly, told
from weft.model.cluster import Cluster
from weft.model.request import Locality
from weft.sim.world import Checks, World
from weft.spec.recipe import make_recipe

NODES, NODE_GPUS = 52, 8
RECIPE = "afs-l"
BESIDE = ("afs-l(spacing=60)", "srtf")
AIM_PROCESSOR_SECONDS = 150.0
SHORT_JOBS = 3_000
LONGEST_RUN_SECONDS = 3_600.0
KIB_PER_MIB = 1024.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one run found and took."""

    jobs: int
    finished: int
    wall_seconds: float
    cpu_seconds: float
    brain_cpu_seconds: float
    peak_mib: float
    rounds: int
    events: int
    resizes: float
    preemptions: float
    mean_jct_seconds: float


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """The time it takes, and what it was made of."""
    first = SHORT_JOBS if short else None
    outcomes = {recipe: _apart(traces, recipe, first) for recipe in (RECIPE, *BESIDE)}
    for recipe, outcome in outcomes.items():
        if isinstance(outcome, str):
            yield broken(f"{recipe} on Philly runs", outcome)
        else:
            yield from _told(f"{recipe} on Philly:", outcome, judged=recipe == RECIPE and not short)


def _told(name: str, outcome: Outcome, *, judged: bool) -> Iterator[Row]:
    yield exactly(f"{name} finished", outcome.finished, "jobs", outcome.jobs)
    wall, cpu, peer = outcome.wall_seconds, outcome.cpu_seconds, "by the clock, s"
    if judged:
        aim = AIM_PROCESSOR_SECONDS
        yield aims_at(f"{name} processor time", cpu, "s", aim, peer=peer, peer_value=wall)
    else:
        yield told(f"{name} processor time", cpu, "s", peer=peer, peer_value=wall)
    each = 1e3 * outcome.brain_cpu_seconds / max(outcome.rounds, 1)
    yield told(f"{name} rounds", outcome.rounds, "", peer="brain, ms each", peer_value=each)
    yield told(
        f"{name} events", outcome.events, "", peer="memory, MiB", peer_value=outcome.peak_mib
    )
    yield told(
        f"{name} average JCT",
        outcome.mean_jct_seconds / 3600.0,
        "h",
        peer="resizes per job",
        peer_value=outcome.resizes,
    )


def replay(traces: Path, recipe: str, first: int | None) -> Outcome:
    """Run the list, or the first of it, to the end."""
    jobs = with_curves(
        philly(traces)[:first], afs_curves(traces), locality=Locality(), leave_out=False
    )
    brain = TimedBrain(make_recipe(recipe))
    begin, begin_cpu = perf_counter(), process_time()
    world = World(Cluster.uniform(NODES, NODE_GPUS), jobs, brain, checks=Checks.TOUCHED)
    record = world.run(progress=_progress)
    wall, cpu = perf_counter() - begin, process_time() - begin_cpu
    lines = list(record.jobs.values())
    ended = [line.jct_seconds for line in lines if line.jct_seconds is not None]
    return Outcome(
        jobs=len(jobs),
        finished=sum(line.outcome == "succeeded" for line in lines),
        wall_seconds=wall,
        cpu_seconds=cpu,
        brain_cpu_seconds=brain.cpu_seconds,
        peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB_PER_MIB,
        rounds=record.rounds,
        events=record.events,
        resizes=sum(line.resizes for line in lines) / len(lines),
        preemptions=sum(line.preemptions for line in lines) / len(lines),
        mean_jct_seconds=sum(ended) / max(len(ended), 1),
    )


def _apart(traces: Path, recipe: str, first: int | None) -> Outcome | str:
    """The outcome of a process of its own, or the last words of one that failed."""
    print(f"  {recipe} on Philly …", file=sys.stderr, flush=True)
    given = {"traces": str(traces), "recipe": recipe, "first": first}
    found = apart("benchmarks.elastic.philly", given, at_most_seconds=LONGEST_RUN_SECONDS)
    return found if isinstance(found, str) else Outcome(**found)


def _progress(over: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r  {over:,d} of {total:,d} jobs over ", end="", file=sys.stderr, flush=True)


def main() -> None:
    given = json.loads(sys.argv[1])
    outcome = replay(Path(given["traces"]), given["recipe"], given["first"])
    print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
