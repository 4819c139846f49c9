"""Isolation: jobs on one server slow each other, and what it is worth to learn who slows whom.

The truth is Philly's: a ResNet-50 that is spread over two servers does 98 images a second alone and
74 to 76 beside others. A third of Philly's jobs is loud (it takes PCIe and the network card), a
third is sensitive to that, the others are neither; who is what the scheduler can only learn from
measured speeds, by program. Beside it the same jobs where nothing is learnt, and where nobody slows
anybody.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Final
from zlib import crc32

from benchmarks.failures.defragmentation import busy
from benchmarks.failures.value import HOUR, SEED
from benchmarks.row import Row, at_least, below_peer, told
from weft.brain.brain import Brain, Settings
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.truth import Strain
from weft.policy.recipes import RECIPES
from weft.sim.costs import named_costs
from weft.sim.neighbours import RESNET_MINDS, RESNET_STRAINS
from weft.sim.record import Record
from weft.sim.world import Checks, World

LOAD: Final = 0.7
PROGRAMS: Final = ("loud", "sensitive", "quiet")
STRAINS: Final[dict[str, Strain | None]] = {"loud": RESNET_STRAINS}
MINDS: Final[dict[str, Strain | None]] = {"sensitive": RESNET_MINDS}
LEAST_BACK: Final = 20.0


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """Completion times with what is learnt, without it, and without neighbours."""
    found, cluster = busy(traces, LOAD, short=short)
    jobs = [_with_program(job) for job in found]
    strained = [_strained(job) for job in jobs]
    alone = lived(jobs, cluster, learns=True)
    unaware = lived(strained, cluster, learns=False)
    aware = lived(strained, cluster, learns=True)
    size = f"{len(jobs):,} jobs of Philly on {cluster.gpus} GPUs, {100 * LOAD:.0f} % load"
    beside = "nothing is learnt"
    best, worst, ours = (_run_hours(one) for one in (alone, unaware, aware))
    yield told(f"{size}: mean time that sensitive jobs run, without neighbours", best, "h")
    bar = below_peer if not short else _told_beside
    yield bar(
        "… with neighbours, and who slows whom is learnt", ours, "h", peer=beside, peer_value=worst
    )
    back = 100 * (worst - ours) / (worst - best) if worst > best else 0.0
    if short:
        yield told("… of what neighbours cost, won back", back, "%")
    else:
        yield replace(
            at_least("… of what neighbours cost, won back", back, "%", LEAST_BACK), aim=True
        )
    yield told(
        "mean completion time of all jobs",
        _jct_hours(aware),
        "h",
        peer=beside,
        peer_value=_jct_hours(unaware),
    )
    yield told("… without neighbours", _jct_hours(alone), "h")


def _told_beside(name: str, value: float, unit: str, *, peer: str, peer_value: float) -> Row:
    return told(name, value, unit, peer=peer, peer_value=peer_value)


def lived(jobs: list[Job], cluster: Cluster, *, learns: bool) -> Record:
    brain = Brain(RECIPES["backfill"](), settings=Settings(learns_neighbours=learns))
    costs = named_costs("tacc")
    return World(cluster, jobs, brain, costs=costs, seed=SEED, checks=Checks.TOUCHED).run()


def _run_hours(record: Record) -> float:
    """From its first start to its end: what neighbours make longer."""
    some = (line for line in record.jobs.values() if _program(line.id) == "sensitive")
    return mean(((line.ended or 0.0) - (line.first_start or 0.0)) / HOUR for line in some)


def _jct_hours(record: Record) -> float:
    return mean((line.jct_seconds or 0.0) / HOUR for line in record.jobs.values())


def _program(job: str) -> str:
    return PROGRAMS[crc32(b"program " + job.encode()) % len(PROGRAMS)]


def _with_program(job: Job) -> Job:
    return replace(job, request=replace(job.request, program=_program(job.id)))


def _strained(job: Job) -> Job:
    program = _program(job.id)
    truth = replace(job.truth, strains=STRAINS.get(program), minds=MINDS.get(program))
    return replace(job, truth=truth)
