"""One replay in a process of its own, so that its peak memory and its hash seed are its own.

`python -m benchmarks.replay_one '{"jobs": …, "cluster": …, "recipe": …}'` prints the outcome as
JSON. Time is counted from the jobs in memory to the last event, reading the list apart.
"""

import gzip
import json
import resource
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from benchmarks import bare_las
from benchmarks.apart import apart
from benchmarks.ledger import Ledger
from weft.brain.brain import Brain
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.reason import CAUSES, Cause
from weft.policy.place.patience import PATIENT
from weft.policy.recipes import RECIPES
from weft.sim.record import JobRecord, Record
from weft.sim.world import Checks, World
from weft.trace.clusters import read_cluster
from weft.trace.readers import read

KIB_PER_MIB = 1024.0
LONGEST_RUN_SECONDS = 1_800.0
LOAD = "load:"
NODE_GPUS = 8
LOCALITY_COLUMN = CAUSES.index(Cause.LOCALITY)
SMALLEST_WORK_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What to replay. A cluster is `52x8`, a node list, or `load:0.8`: as many 8-GPU nodes."""

    jobs: str
    cluster: str
    recipe: str
    parameters: tuple[tuple[str, bool | float], ...] = ()
    first: int | None = None
    bare: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything the suite's rows are made of."""

    jobs: int
    gpus: int
    read_seconds: float
    wall_seconds: float
    cpu_seconds: float
    peak_mib: float
    events: int
    rounds: int
    starts: int
    journal_hash: str
    finished: int
    doubles: int
    worst_work_error: float
    worst_service_error: float
    waiting_seconds: float
    booked_seconds: float
    worst_wait_error_seconds: float
    mean_jct_seconds: float
    wide_p95_delay_seconds: float
    single_mean_delay_seconds: float
    busy_share: float
    node_jobs_on_one_node: float
    two_node_jobs_mean_nodes: float
    longest_locality_wait_seconds: float
    over_locality_bound: int
    bare_cpu_seconds: float | None = None
    bare_wall_seconds: float | None = None
    bare_mean_jct_seconds: float | None = None


def in_a_process(spec: Spec, *, seed: int = 0) -> Outcome | str:
    """The outcome of one replay in its own process, or the last words of one that failed."""
    found = apart(
        "benchmarks.replay_one",
        asdict(spec),
        at_most_seconds=LONGEST_RUN_SECONDS,
        environment={"PYTHONHASHSEED": str(seed)},
    )
    return found if isinstance(found, str) else Outcome(**found)


def prefix(listing: Path, folder: Path, count: int) -> Path:
    """The first jobs as a file of their own, so that a short run does not read them all."""
    shorter = folder / listing.name
    with gzip.open(listing, "rt") as lines, gzip.open(shorter, "wt", compresslevel=1) as out:
        out.writelines(islice(lines, count + 1))
    return shorter


def main() -> None:
    given = json.loads(sys.argv[1])
    given["parameters"] = tuple((name, value) for name, value in given["parameters"])
    print(json.dumps(asdict(replay(Spec(**given)))))


def replay(spec: Spec) -> Outcome:
    """Read, run, and account for every job."""
    begin = perf_counter()
    jobs = [job.saving_on_demand() for job in read(spec.jobs).jobs[: spec.first]]
    read_seconds = perf_counter() - begin
    cluster = _cluster(spec.cluster, jobs)
    ledger = Ledger(jobs, cluster)
    brain = Brain(RECIPES[spec.recipe](**dict(spec.parameters)))
    begin, begin_cpu = perf_counter(), process_time()
    world = World(cluster, jobs, brain, journal=ledger, checks=Checks.TOUCHED)
    record = world.run(progress=_progress)
    wall, cpu = perf_counter() - begin, process_time() - begin_cpu
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB_PER_MIB
    measured = {
        "read_seconds": read_seconds,
        "wall_seconds": wall,
        "cpu_seconds": cpu,
        "peak_mib": peak_mib,
    }
    bare = _bare(jobs, cluster.gpus) if spec.bare else {}
    return Outcome(**measured, **bare, **_accounts(jobs, record, ledger))  # type: ignore[arg-type]


def _cluster(source: str, jobs: list[Job]) -> Cluster:
    if source.startswith(LOAD):
        return Cluster.uniform(nodes_for_load(jobs, float(source.removeprefix(LOAD))), NODE_GPUS)
    return read_cluster(source).cluster


def nodes_for_load(jobs: list[Job], load: float) -> int:
    """Nodes that the jobs, each started when submitted, would keep busy to that share.

    Counted between the tenth of the jobs and the last, because the list begins with a lull.
    """
    begin, end = _busy_window(jobs)
    demand = sum(
        job.width.asked_gpus
        * max(min(job.submit_seconds + job.work.amount, end) - max(job.submit_seconds, begin), 0.0)
        for job in jobs
    )
    return max(round(demand / (end - begin) / NODE_GPUS / load), 1)


def _busy_window(jobs: list[Job]) -> tuple[float, float]:
    return jobs[len(jobs) // 10].submit_seconds, jobs[-1].submit_seconds


def _bare(jobs: list[Job], gpus: int) -> dict[str, float]:
    """The bare loop beside it, in the same process and minute."""
    begin = process_time()
    result = bare_las.replay(jobs, gpus)
    return {
        "bare_cpu_seconds": process_time() - begin,
        "bare_wall_seconds": result.wall_seconds,
        "bare_mean_jct_seconds": result.mean_jct_seconds,
    }


def _accounts(jobs: list[Job], record: Record, ledger: Ledger) -> dict[str, float | int | str]:
    lines = [record.jobs[job.id] for job in jobs if job.id in record.jobs]
    ended = [line for line in lines if line.outcome == "succeeded"]
    once = sum(ledger.accounts[line.id].finishes == 1 for line in ended)
    return {
        "jobs": len(jobs),
        "gpus": record.total_gpus,
        "events": record.events,
        "rounds": record.rounds,
        "starts": sum(line.starts for line in lines),
        "journal_hash": record.journal_hash,
        "finished": once,
        "doubles": ledger.doubles + len(lines) - len({line.id for line in lines}),
        "mean_jct_seconds": _mean(line.jct_seconds or 0.0 for line in ended),
        "busy_share": _busy_share(jobs, record),
        **_work(ended, ledger),
        **_waits(ended, ledger),
        **_delays(ended),
        **_locality(jobs, record, ledger),
    }


def _work(ended: list[JobRecord], ledger: Ledger) -> dict[str, float]:
    """Work done by the messages against work asked for; service by the brain against both."""
    work = service = 0.0
    for line in ended:
        account = ledger.accounts[line.id]
        asked = max(line.service_seconds, SMALLEST_WORK_SECONDS)
        work = max(work, abs(account.work_seconds - line.service_seconds) / asked)
        gpu_seconds = account.running_seconds * line.gpus
        service = max(
            service, abs(line.attained_gpu_seconds - gpu_seconds) / (asked * max(line.gpus, 1))
        )
    return {"worst_work_error": work, "worst_service_error": service}


def _waits(ended: list[JobRecord], ledger: Ledger) -> dict[str, float]:
    """Booked waits against what the messages leave of each job's life."""
    waited = booked = worst = 0.0
    for line in ended:
        left = (line.jct_seconds or 0.0) - ledger.accounts[line.id].running_seconds
        told = sum(line.waits_seconds)
        waited, booked = waited + left, booked + told
        worst = max(worst, abs(left - told))
    return {
        "waiting_seconds": waited,
        "booked_seconds": booked,
        "worst_wait_error_seconds": worst,
    }


def _delays(ended: list[JobRecord]) -> dict[str, float]:
    wide = [line.start_delay_seconds or 0.0 for line in ended if line.gpus > NODE_GPUS]
    return {
        "wide_p95_delay_seconds": float(np.quantile(wide, 0.95)) if wide else 0.0,
        "single_mean_delay_seconds": _mean(
            line.start_delay_seconds or 0.0 for line in ended if line.gpus == 1
        ),
    }


def _locality(jobs: list[Job], record: Record, ledger: Ledger) -> dict[str, float | int]:
    whole = ledger.starts_by_nodes.get(NODE_GPUS, {})
    double = ledger.starts_by_nodes.get(2 * NODE_GPUS, {})
    longest, over = 0.0, 0
    for job in jobs:
        waits = record.jobs[job.id].waits_seconds
        waited = waits[LOCALITY_COLUMN] if waits else 0.0
        longest = max(longest, waited)
        over += waited > _locality_bound(job, ledger) + 1e-6
    return {
        "node_jobs_on_one_node": whole.get(1, 0) / max(sum(whole.values()), 1),
        "two_node_jobs_mean_nodes": sum(nodes * count for nodes, count in double.items())
        / max(sum(double.values()), 1),
        "longest_locality_wait_seconds": longest,
        "over_locality_bound": over,
    }


def _locality_bound(job: Job, ledger: Ledger) -> float:
    """What the worst offer there is, one GPU on each node, makes worth waiting: (s − 1) T."""
    width = job.width.asked_gpus
    slowdown = job.truth.locality.slowdown(nodes=width, fewest_nodes=ledger.fewest_nodes(width))
    return min((slowdown - 1.0) * job.work.amount, PATIENT.cap_seconds)


def _busy_share(jobs: list[Job], record: Record) -> float:
    """Share of the GPUs held, over time, in the window that loads are counted in."""
    begin, end = _busy_window(jobs)
    times, used = np.array(record.times), np.array(record.used_gpus)
    seconds = np.diff(np.append(times, record.end).clip(begin, end))
    return float((seconds * used).sum() / max(seconds.sum(), 1e-9) / record.total_gpus)


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values) or [0.0]))


def _progress(over: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r  {over:,d} of {total:,d} jobs over ", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
