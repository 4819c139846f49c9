"""Storms: how many must leave because one large job fails again and again.

Meta told of a job with 1,024 GPUs that failed 35 times and drove out 548 others, because its GPUs
were given away each time. Here the same job has the higher priority on 1,280 GPUs, beside more
gangs of 64 GPUs than there is room for. It fails every eight hours: once by its node, whereupon it
goes on at once elsewhere, and once by a service, whereupon it rests. Beside it the same where
nothing is kept.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.row import Row, at_most, told
from weft.brain.brain import Brain, Settings
from weft.failure.lines import Stream
from weft.model.cluster import Cluster
from weft.model.ids import JobId, TenantId
from weft.model.job import Job
from weft.model.request import Width
from weft.model.truth import Work
from weft.policy.recipes import RECIPES
from weft.sim.costs import named_costs
from weft.sim.faults import Faults
from weft.sim.record import Record
from weft.sim.troubles import Ailment, Said, Troubles
from weft.sim.world import Checks, World

LARGE: Final = JobId("large")
NODES, NODE_GPUS, LARGE_GPUS = 160, 8, 1_024
SHORT_PART: Final = 8
OTHER_GPUS: Final = 64
FAILURES: Final = 35
HOUR: Final = 3_600.0
BETWEEN_SECONDS: Final = 8 * HOUR
OTHER_SECONDS: Final = 20 * HOUR
MOST_PREEMPTIONS: Final = 70
TOLD: Final = 548
SEED: Final = 1
OFF_BUS: Final = "NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus."
NO_HDFS: Final = "java.net.ConnectException: Call From a to b:8020 failed on connection exception"
ENDS: Final[dict[str, tuple[Said, ...]]] = {
    "its node": ((Stream.KERNEL, OFF_BUS),),
    "a service": ((Stream.APP, NO_HDFS),),
}


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """Preemptions with what is kept, and without, by what it fails of."""
    part = SHORT_PART if short else 1
    for cause, lines in ENDS.items():
        ours = lived(lines, part, Settings())
        beside = lived(lines, part, Settings(keep_seats_seconds=0.0))
        failures = ours.jobs[LARGE].failures
        name = f"a job of {LARGE_GPUS // part:,} GPUs fails {failures} times by {cause}"
        yield at_most(
            f"{name}: others that must leave",
            preempted(ours),
            "times",
            MOST_PREEMPTIONS,
            peer="nothing is kept",
            peer_value=preempted(beside),
        )
        yield told(
            "… GPU hours that these lose",
            _lost_hours(ours),
            "GPU h",
            peer="nothing is kept",
            peer_value=_lost_hours(beside),
        )
        yield told(
            "… completion time of the large job",
            (ours.jobs[LARGE].jct_seconds or 0.0) / HOUR,
            "h",
            peer="nothing is kept",
            peer_value=(beside.jobs[LARGE].jct_seconds or 0.0) / HOUR,
        )
    yield told("others that had to leave at Meta", TOLD, "times")


def preempted(record: Record) -> int:
    return sum(line.preemptions for line in record.jobs.values())


def _lost_hours(record: Record) -> float:
    return sum(line.yielded_gpu_seconds for line in record.jobs.values()) / HOUR


def lived(lines: tuple[Said, ...], part: int, settings: Settings) -> Record:
    """To the end; in a part of the cluster all but the nodes is as much smaller."""
    kept = replace(settings, keep_seats_gpus=settings.keep_seats_gpus // part)
    ill = Ailment(lines=lines, after_seconds=BETWEEN_SECONDS, again=1.0 - 1e-12)
    world = World(
        Cluster.uniform(NODES // part, NODE_GPUS),
        _jobs(part),
        Brain(RECIPES["backfill"](make_way=True), settings=kept),
        costs=named_costs("tacc"),
        faults=Faults(troubles=Troubles(ailments={LARGE: ill})),
        seed=SEED,
        checks=Checks.TOUCHED,
    )
    return world.run()


def _jobs(part: int) -> list[Job]:
    """The large one first, then so many others that somebody always waits."""
    seconds = FAILURES * BETWEEN_SECONDS
    large = _job(LARGE, LARGE_GPUS // part, seconds, 0.0, priority=1)
    beside = (NODES * NODE_GPUS - LARGE_GPUS) // OTHER_GPUS
    gap = OTHER_SECONDS / (3 * beside)
    names = (JobId(f"other-{n}") for n in range(int(seconds / gap)))
    gpus = max(OTHER_GPUS // part, 1)
    others = (_job(name, gpus, OTHER_SECONDS, 60.0 + n * gap) for n, name in enumerate(names))
    return [large, *others]


def _job(name: JobId, gpus: int, seconds: float, at: float, *, priority: int = 0) -> Job:
    return Job.told(
        id=name,
        width=Width.fixed(gpus),
        work=Work(seconds),
        submit_seconds=at,
        tenant=TenantId(name),
        priority=priority,
        checkpoint_interval_seconds=1_800.0,
        max_retries=100,
    )
