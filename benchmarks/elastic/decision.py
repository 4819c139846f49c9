"""Decision: what it costs to hand out the GPUs of a cluster once, and how that grows.

One call of a size on a snapshot that stands ready, on one core, in processor time; the median of
several calls on different jobs. Half of the jobs run and half wait, from one GPU up to the widest
of their curve. The curves: a dozen models of different scaling up to 64 GPUs; one of its own for
every job, as when all are being learnt; and the same with a dip at every other width. Beside
`afs-l` the plain form of its rule, one vector pass per GPU (`handout_oracle`), on the same jobs: it
must find the same widths in a fraction of the time, which is the bar that can fail: milliseconds
depend on the machine and on what else it does. Needs no traces.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np

from benchmarks.elastic.handout_oracle import Rungs, hull, one_by_one
from benchmarks.row import Row, aims_at, at_least, exactly, told
from weft.model.menu import Floats, Menus
from weft.model.snapshot import Ints, JobColumns, NodeColumns, SeatColumns, Snapshot
from weft.model.state import State
from weft.policy.packing import Packing
from weft.policy.size.afs import Afs
from weft.policy.size.even import Even
from weft.policy.size.optimus import Optimus
from weft.policy.size.requested import Size
from weft.policy.supply import Supply

AIMS_MS = ((1_000, 4_000, 50.0), (10_000, 20_000, 500.0))
PLAIN_TIMES = 4.0
"""So much longer must the plain form take at least."""
GROWTH_GPUS = (1_000, 3_000, 10_000, 30_000, 100_000)
SHORT_GROWTH_GPUS = (1_000, 10_000)
GPUS_PER_JOB = (4, 2)
JOBS_PER_GPU = 2
CALLS, SHORT_CALLS = 9, 3

NODE_GPUS = 8
MODELS = 12
WIDEST = 64


class Case(NamedTuple):
    """A snapshot and its jobs in rank order."""

    snapshot: Snapshot
    slots: Ints


def rows(traces: Path | None = None, *, short: bool = False) -> Iterator[Row]:
    """The two sizes that have an aim, then what else may decide, then all sizes."""
    calls = SHORT_CALLS if short else CALLS
    for jobs, gpus, aim_ms in AIMS_MS:
        for what, make in CURVES.items():
            spent = median_ms(Afs(), jobs, gpus, make, calls)
            yield aims_at(f"afs-l, {jobs:,d} jobs on {gpus:,d} GPUs, {what}", spent, "ms", aim_ms)
        yield from _beside_the_plain_form(jobs, gpus)
    for name, size in OTHERS.items():
        spent = median_ms(size, jobs, gpus, a_dozen_models, calls)
        yield told(f"{name}, {jobs:,d} jobs on {gpus:,d} GPUs, a dozen models", spent, "ms")
    yield from _growth(short=short, calls=calls)
    yield from _crowds(short=short, calls=calls)


def _beside_the_plain_form(jobs: int, gpus: int) -> Iterator[Row]:
    """The same widths, and how long they take one vector pass at a time."""
    case = a_case(jobs, gpus, a_dozen_models, seed=0)
    widths, spent = timed(Afs(), case)
    rungs = rungs_of(case)
    begin = process_time()
    plain = plainly(case, rungs)
    plain_ms = 1e3 * (process_time() - begin)
    name = f"afs-l, {jobs:,d} jobs on {gpus:,d} GPUs"
    differing = int((widths != plain).sum())
    yield exactly(f"{name}: widths other than the plain form's", differing, "jobs", 0)
    yield at_least(f"{name}: time of the plain form", plain_ms / spent, "times", PLAIN_TIMES)


def _growth(*, short: bool, calls: int) -> Iterator[Row]:
    for gpus_per_job in GPUS_PER_JOB:
        for gpus in SHORT_GROWTH_GPUS if short else GROWTH_GPUS:
            jobs = gpus // gpus_per_job
            spent = median_ms(Afs(), jobs, gpus, a_dozen_models, calls)
            own = median_ms(Afs(), jobs, gpus, a_curve_each, calls)
            name = f"afs-l growth, {jobs:>6,d} jobs on {gpus:>7,d} GPUs"
            yield told(name, spent, "ms", peer="a curve each, ms", peer_value=own)


def _crowds(*, short: bool, calls: int) -> Iterator[Row]:
    """More jobs than GPUs: floors only."""
    for gpus in SHORT_GROWTH_GPUS if short else GROWTH_GPUS:
        jobs = JOBS_PER_GPU * gpus
        spent = median_ms(Afs(), jobs, gpus, a_dozen_models, calls)
        yield told(f"afs-l growth, {jobs:>7,d} jobs on {gpus:>7,d} GPUs", spent, "ms")


def median_ms(size: Size, jobs: int, gpus: int, make: "CurveMaker", calls: int) -> float:
    """Of the processor time of so many calls, each on other jobs."""
    spent = [timed(size, a_case(jobs, gpus, make, seed))[1] for seed in range(calls)]
    return float(np.median(spent))


def timed(size: Size, case: Case) -> tuple[Ints, float]:
    """The widths, and the milliseconds of processor time that they took."""
    begin = process_time()
    widths = size(case.snapshot, case.slots, Supply.of(case.snapshot, case.slots))
    return widths, 1e3 * (process_time() - begin)


def rungs_of(case: Case) -> Rungs:
    """The hull of each job's curve."""
    curves, rows = case.snapshot.menus, case.snapshot.jobs.menu[case.slots].tolist()
    hulls = {
        row: hull([(width, float(speeds[width])) for width in range(1, int(widest) + 1)])
        for row, (speeds, widest) in enumerate(zip(curves.likely, curves.widest, strict=True))
    }
    return Rungs([hulls[row] for row in rows])


def plainly(case: Case, rungs: Rungs) -> Ints:
    """The same decision one rung at a time; for fewer jobs than GPUs, so that all have a floor."""
    snapshot, slots = case
    return one_by_one(
        rungs,
        snapshot.remaining_work(slots) / snapshot.jobs.scale[slots],
        snapshot.attained(slots),
        snapshot.jobs.seq[slots],
        int(snapshot.nodes.gpus.sum()) - len(slots),
        lengths_known=True,
    )


# --- jobs and curves ------------------------------------------------------------------------------


def a_case(jobs: int, gpus: int, make: "CurveMaker", seed: int) -> Case:
    """Jobs with remaining times over four orders of magnitude, shortest first."""
    chance = np.random.default_rng([seed, jobs, gpus])
    curves, row = make(chance, jobs)
    columns = JobColumns.empty(jobs)
    columns.active[:], columns.live[:] = True, True
    columns.state[:] = np.where(np.arange(jobs) % 2, State.RUNNING, State.QUEUED)
    columns.seq[:] = chance.permutation(jobs)
    columns.min_gpus[:], columns.max_gpus[:] = 1, curves.widest[row]
    columns.width[:] = columns.state == State.RUNNING
    columns.menu[:], columns.scale[:] = row, chance.uniform(1.0, 100.0, jobs)
    columns.work_total[:] = columns.scale * 10 ** chance.uniform(2.0, 6.0, jobs)
    columns.attained_gpu_seconds[:] = 10 ** chance.uniform(0.0, 6.0, jobs)
    seconds = columns.work_total / (columns.scale * curves.likely[row, 1])
    return Case(_snapshot(columns, curves, gpus), np.argsort(seconds))


def _snapshot(columns: JobColumns, curves: Menus, gpus: int) -> Snapshot:
    nodes = NodeColumns.empty(gpus // NODE_GPUS)
    nodes.present[:], nodes.gpus[:] = True, NODE_GPUS
    return Snapshot(
        now=0.0,
        jobs=columns,
        nodes=nodes,
        seats=SeatColumns.empty(0),
        specs=[None] * len(columns.seq),
        node_ids=(),
        queue_ids=(),
        gpu_types=(),
        menus=curves,
    )


def a_dozen_models(chance: np.random.Generator, jobs: int) -> tuple[Menus, Ints]:
    widest = np.linspace(4, WIDEST, MODELS).astype(np.int64)
    return _table(_scaling(chance, MODELS), widest), chance.integers(0, MODELS, jobs)


def a_curve_each(chance: np.random.Generator, jobs: int) -> tuple[Menus, Ints]:
    widest = chance.integers(4, WIDEST + 1, jobs)
    return _table(_scaling(chance, jobs), widest), np.arange(jobs)


def a_sagging_curve_each(chance: np.random.Generator, jobs: int) -> tuple[Menus, Ints]:
    speeds = _scaling(chance, jobs)
    speeds[:, 3::2] *= chance.uniform(0.7, 1.0, speeds[:, 3::2].shape)
    return _table(speeds, chance.integers(4, WIDEST + 1, jobs)), np.arange(jobs)


def _scaling(chance: np.random.Generator, count: int) -> Floats:
    """Speeds by width of jobs that differ in the part of a step that no GPU shortens."""
    width = np.arange(WIDEST + 1)
    fixed = 10 ** chance.uniform(-3.0, -0.7, (count, 1))
    return width / (1.0 + fixed * np.maximum(width - 1, 0))


def _table(speeds: Floats, widest: Ints) -> Menus:
    flat = np.minimum(np.arange(speeds.shape[1]), widest[:, None])
    likely = np.take_along_axis(speeds, flat, axis=1)
    gpus = np.tile(np.arange(speeds.shape[1]), (len(speeds), 1))
    return Menus(gpus, likely, likely, likely, widest)


CurveMaker = Callable[[np.random.Generator, int], tuple[Menus, Ints]]
CURVES: dict[str, CurveMaker] = {
    "a dozen models": a_dozen_models,
    "a curve each": a_curve_each,
    "a sagging curve each": a_sagging_curve_each,
}
OTHERS: dict[str, Size] = {
    "afs-p": Afs(lengths_known=False),
    "afs-l, packed": Afs(packing=Packing.NETWORK),
    "optimus": Optimus(),
    "even": Even(),
}
