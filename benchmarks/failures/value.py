"""Value: Philly's jobs with Philly's failures, with what this room does about them and without.

A sixteenth of the list on a sixteenth of the GPUs, the same seed and the same truth in every run:
jobs are ill as the table says, nodes go bad at Meta's rate and are repaired within a day, and a
store that half of the jobs need is out for an hour once a week. Without the room a world reports
exit statuses, and everything is tried three times more. Then each mechanism is left out alone.

Lost is all that a job had which is given up in the end, and what others did since their last
checkpoint when they failed. The first try of an ill job is lost whatever anybody does.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zlib import crc32

from benchmarks.row import Row, at_least, at_most, told
from weft.brain.brain import Brain, Settings
from weft.lab.workloads.failing import named_troubles
from weft.model.cluster import Cluster
from weft.model.ids import JobId
from weft.model.job import Job
from weft.sim.costs import named_costs
from weft.sim.faults import Faults
from weft.sim.record import JobRecord, Record
from weft.sim.troubles import Troubles
from weft.sim.world import Checks, World
from weft.spec.recipe import make_recipe
from weft.trace.readers import read

LISTING: Final = Path("jobs", "philly_pollux.csv.gz")
PART: Final = 16
SHORT_PART: Final = 128
NODES, SHORT_NODES = 26, 4
NODE_GPUS: Final = 8
RECIPE: Final = "backfill"
SEED: Final = 1
HOUR: Final = 3_600.0
LEFT_OUT: Final = {
    "retry by class": {"retry_by_class": False},
    "breakers": {"breakers": False},
    "quarantine": {"quarantine": False},
}


@dataclass(frozen=True, slots=True)
class Lived:
    """One run."""

    lost_hours: float
    used_hours: float
    succeeded: dict[JobId, float]
    goodput: float
    failures: int
    given_up: int


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """With and without, side by side, then without each."""
    jobs, cluster = philly(traces, short=short, nodes=SHORT_NODES if short else NODES)
    troubles = named_troubles("philly", jobs, cluster, SEED)
    without = lived(jobs, cluster, troubles.unexplained())
    room = lived(jobs, cluster, troubles)
    both = room.succeeded.keys() & without.succeeded.keys()
    size = f"{len(jobs):,} jobs of Philly on {cluster.gpus} GPUs"
    yield told(f"{size}: jobs that are ill", len(troubles.ailments), "jobs")
    yield told("… nodes that go bad", len(troubles.bad_nodes), "nodes")
    beside = "three retries"
    yield at_most(
        "GPU hours lost to failures",
        room.lost_hours,
        "GPU h",
        without.lost_hours,
        peer=beside,
        peer_value=without.lost_hours,
    )
    yield told("… less by", 100 * (1 - room.lost_hours / without.lost_hours), "%")
    yield told("runs that fail", room.failures, "runs", peer=beside, peer_value=without.failures)
    yield at_most(
        f"mean completion time of {len(both):,} jobs that succeed in both",
        _mean(room, both),
        "h",
        _mean(without, both) * 1.01,
        peer=beside,
        peer_value=_mean(without, both),
    )
    yield at_least(
        "goodput: useful of all GPU time",
        100 * room.goodput,
        "%",
        100 * without.goodput,
    )
    yield told("… with three retries", 100 * without.goodput, "%")
    yield told("jobs given up", room.given_up, "jobs", peer=beside, peer_value=without.given_up)
    for name, settings in LEFT_OUT.items():
        less = lived(jobs, cluster, troubles, Settings(**settings))
        more = less.lost_hours - room.lost_hours
        yield told(f"without {name}: GPU hours lost more", more, "GPU h")
        yield told("… runs that fail", less.failures, "runs")
        yield told("… goodput", 100 * less.goodput, "%")
        same = room.succeeded.keys() & less.succeeded.keys()
        slower = 100 * (_mean(less, same) / _mean(room, same) - 1)
        yield told("… completion time of jobs that succeed in both, longer by", slower, "%")


def simulated(
    jobs: list[Job], cluster: Cluster, troubles: Troubles, settings: Settings | None = None
) -> Record:
    """To the end."""
    world = World(
        cluster,
        jobs,
        Brain(make_recipe(RECIPE), settings=settings),
        costs=named_costs("tacc"),
        faults=Faults(troubles=troubles),
        seed=SEED,
        checks=Checks.TOUCHED,
    )
    return world.run()


def lived(
    jobs: list[Job], cluster: Cluster, troubles: Troubles, settings: Settings | None = None
) -> Lived:
    lines = list(simulated(jobs, cluster, troubles, settings).jobs.values())
    used = sum(line.attained_gpu_seconds for line in lines) / HOUR
    lost = sum(map(_lost_gpu_seconds, lines)) / HOUR
    well = [line for line in lines if line.outcome == "succeeded"]
    return Lived(
        lost_hours=lost,
        used_hours=used,
        succeeded={line.id: (line.jct_seconds or 0.0) / HOUR for line in well},
        goodput=1.0 - lost / used,
        failures=sum(line.failures for line in lines),
        given_up=sum(line.outcome == "failed" for line in lines),
    )


def _lost_gpu_seconds(line: JobRecord) -> float:
    return line.attained_gpu_seconds if line.outcome == "failed" else line.lost_gpu_seconds


def _mean(one: Lived, jobs: Collection[JobId]) -> float:
    return sum(one.succeeded[job] for job in jobs) / max(len(jobs), 1)


def philly(traces: Path, *, short: bool, nodes: int) -> tuple[list[Job], Cluster]:
    """Every so-manieth job by a checksum of its name; gangs as wide as the cluster at most."""
    part = SHORT_PART if short else PART
    cluster = Cluster.uniform(nodes, NODE_GPUS)
    some = (job for job in read(traces / LISTING).jobs if not crc32(job.id.encode()) % part)
    fits = [job for job in some if job.width.min_gpus <= cluster.gpus]
    return fits, cluster
