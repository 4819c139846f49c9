"""Failures to inject into a simulation, by name: `philly`, or `philly*2` for twice as many.

A share of the jobs is ill as Philly's were; nodes go bad at the rate that Meta told of its research
clusters and are repaired within a day; and once in a while a store that half of the jobs need
does not answer for an hour.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from weft.failure.lines import Stream
from weft.model.cluster import Cluster
from weft.model.errors import SpecError
from weft.model.job import Job
from weft.sim.chance import Chance
from weft.sim.troubles import NO_TROUBLES, Ailment, BadNode, Outage, Said, Troubles
from weft.trace.philly_failures import chosen, ending, failing_share

DAY_SECONDS: Final = 86_400.0
NODE_FAULTS_PER_DAY: Final = 6.5 / 1_000
REPAIR_SECONDS: Final = DAY_SECONDS
BAD_SHARE: Final = 0.7
OUTAGES_PER_DAY: Final = 1.0 / 7.0
OUTAGE_SECONDS: Final = 3_600.0
NEEDS_SHARE: Final = 0.5
LATEST_SHARE: Final = 0.95  # of a job's way: an ill job never gets to its end
MOST_TIMES: Final = 1_000.0
KERNEL_SAYS: Final = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus."
PROGRAM_SAYS: Final = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
STORE: Final = "hdfs"
STORE_SAYS: Final = (
    "java.net.ConnectException: Call From worker to namenode:8020 failed on connection exception"
)


def named_troubles(name: str, jobs: Sequence[Job], cluster: Cluster, seed: int) -> Troubles:
    """What is wrong in a world of these jobs and nodes."""
    if not name:
        return NO_TROUBLES
    kind, star, times = name.partition("*")
    try:
        scale = float(times) if star else 1.0
    except ValueError:
        scale = -1.0
    if kind != "philly" or not 0.0 <= scale <= MOST_TIMES:
        raise SpecError(f"no failures '{name}'", hint="write philly, or philly*2 for twice as many")
    chance = Chance(seed)
    end = max((job.submit_seconds for job in jobs), default=0.0) + DAY_SECONDS
    return Troubles(
        ailments={
            job.id: ailment(job, chance)
            for job in jobs
            if chance.uniform("ill", job.id) < scale * failing_share()
        },
        bad_nodes=tuple(_bad_nodes(cluster, end, chance, scale)),
        outages=tuple(_outages(end, chance, scale)),
    )


def ailment(job: Job, chance: Chance) -> Ailment:
    """As one of Philly's jobs of that width."""
    gpus = job.width.asked_gpus
    reason = chosen(gpus, chance.uniform("reason", job.id))
    seconds = reason.seconds(chance.uniform("after", job.id))
    latest = LATEST_SHARE * job.truth.seconds_as_asked
    return Ailment(
        lines=tuple(map(said, ending(reason, partial(chance.uniform, job.id)))),
        after_seconds=min(seconds, latest),
        again=reason.again,
        needs_gpus=0 if reason.alone else min(gpus, 2),
    )


def said(text: str) -> Said:
    """Who says it stands before a line of the kernel's or the platform's."""
    for stream in (Stream.KERNEL, Stream.PLATFORM):
        if text.startswith(f"{stream}: "):
            return stream, text.removeprefix(f"{stream}: ")
    return Stream.APP, text


def _bad_nodes(cluster: Cluster, end: float, chance: Chance, scale: float) -> Iterator[BadNode]:
    """Days on which a node goes bad; every other time its kernel says so."""
    for node in cluster.nodes:
        for day in range(int(end / DAY_SECONDS) + 1):
            who = ("node", node.id, day)
            if chance.uniform(*who) < scale * NODE_FAULTS_PER_DAY:
                begin = (day + chance.uniform("hour", *who)) * DAY_SECONDS
                kernel = chance.uniform("says", *who) < 0.5  # noqa: PLR2004
                line = (Stream.KERNEL, KERNEL_SAYS) if kernel else (Stream.APP, PROGRAM_SAYS)
                yield BadNode(
                    node=node.id,
                    lines=(line,),
                    begin_seconds=begin,
                    end_seconds=begin + REPAIR_SECONDS,
                    share=BAD_SHARE,
                )


def _outages(end: float, chance: Chance, scale: float) -> Iterator[Outage]:
    for day in range(int(end / DAY_SECONDS) + 1):
        if chance.uniform("outage", day) < scale * OUTAGES_PER_DAY:
            begin = (day + chance.uniform("outage hour", day)) * DAY_SECONDS
            yield Outage(
                service=STORE,
                lines=((Stream.APP, STORE_SAYS),),
                begin_seconds=begin,
                end_seconds=begin + OUTAGE_SECONDS,
                share=NEEDS_SHARE,
            )
