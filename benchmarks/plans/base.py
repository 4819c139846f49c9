"""Base: Rubick's workloads on 64 GPUs, its measured tables as the truth, 260 s for every start.

No length is known, but to the one recipe that is said to know them. `bp` are the same jobs with
other submitted plans, in `mt` 194 of 406 are guaranteed what they asked for. Parameters were
chosen on other workloads of the same models (`workloads.drawn`, seeds 1 to 4), not on these.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.plans.workloads import cluster, jobs, lines
from benchmarks.row import Row, aims_at, at_most, exactly, told
from weft.brain.brain import Brain
from weft.brain.event import Phase
from weft.model.job import Job
from weft.policy.recipe import Recipe
from weft.policy.recipes import RECIPES
from weft.sim.costs import Costs, constant
from weft.sim.world import World

START_SECONDS = 260.0
COSTS = Costs("rubick", start=constant(START_SECONDS))
JCT_SECONDS, MAKESPAN_SECONDS = 2_100.0, 58_680.0
ARTIFACT = {"base": (3_638.0, 58_680.0), "bp": (3_638.0, 58_680.0), "mt": (4_017.0, 60_780.0)}
ROUNDING = 1e-6

BESIDE: dict[str, tuple[str, dict[str, object], bool]] = {
    "FIFO": ("fifo", {}, False),
    "backfill": ("backfill", {"reserve": False}, False),
    "SRTF, lengths known": ("srtf", {}, True),
    "like Sia": ("sia", {}, False),
    "resources only": ("rubick-r", {}, False),
    "plans only": ("rubick-p", {}, False),
}


@dataclass(slots=True)
class Audit:
    """What is watched while a world runs: promises, and what restarts cost."""

    world: World
    rounds: int = 0
    job_rounds: int = 0
    below: int = 0
    worst: float = 1.0
    restart_gpu_seconds: float = 0.0
    seconds: list[float] = field(default_factory=list)
    _started: set[tuple[str, int]] = field(default_factory=set)

    def run(self) -> None:
        """To the end, looking after every round."""
        world = self.world
        while world.pending:
            begin = process_time()
            world.step()
            if world.brain.rounds > self.rounds:
                self.rounds = world.brain.rounds
                self.seconds.append(process_time() - begin)
                self._look()

    def _look(self) -> None:
        for run in self.world.running():
            key = run.job.id, run.epoch
            if run.epoch > 1 and key not in self._started:
                self._started.add(key)
                self.restart_gpu_seconds += START_SECONDS * run.placement.width
            if run.job.request.guaranteed and run.phase is Phase.RUNNING:
                self._compare(run.speed, run.job)

    def _compare(self, speed: float, job: Job) -> None:
        """What is really reached against what was asked for would really have reached."""
        assert job.truth.steps is not None
        ratio = speed / job.truth.steps.as_asked(job.width.asked_gpus)
        self.job_rounds += 1
        self.below += ratio < 1.0 - ROUNDING
        self.worst = min(self.worst, ratio)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One recipe on one workload."""

    jct_seconds: float
    makespan_seconds: float
    restarts_per_job: float
    most_restarts: int
    restart_share: float
    unfinished: int
    audit: Audit


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """The workload of the paper and two others, and on the first all recipes beside."""
    for name in ("base",) if short else ("base", "bp", "mt"):
        yield from _of(traces, name)
    if not short:
        yield from _beside(traces)


def played(traces: Path, name: str, recipe: Recipe, *, tell_work: bool = False) -> Outcome:
    given = jobs(traces, lines(traces, name), tell_work=tell_work)
    world = World(cluster(), given, Brain(recipe), costs=COSTS, keep_sittings=True)
    audit = Audit(world)
    audit.run()
    record = world.run()
    lived = list(record.jobs.values())
    over = [one for one in lived if one.ended is not None]
    held = sum(sat.gpus * (sat.end - sat.begin) for sat in record.sittings)
    return Outcome(
        jct_seconds=float(np.mean([one.jct_seconds for one in over])),
        makespan_seconds=max(one.ended or 0.0 for one in over),
        restarts_per_job=sum(one.starts - 1 for one in lived) / len(lived),
        most_restarts=max(one.starts - 1 for one in lived),
        restart_share=audit.restart_gpu_seconds / held,
        unfinished=len(lived) - len(over),
        audit=audit,
    )


def _of(traces: Path, name: str) -> Iterator[Row]:
    found, (jct, makespan) = played(traces, name, RECIPES["rubick"]()), ARTIFACT[name]
    bar = aims_at
    yield bar(
        f"{name}: average JCT",
        found.jct_seconds,
        "s",
        JCT_SECONDS,
        peer="Rubick's artifact",
        peer_value=jct,
    )
    yield bar(
        f"{name}: makespan",
        found.makespan_seconds,
        "s",
        MAKESPAN_SECONDS,
        peer="Rubick's artifact",
        peer_value=makespan,
    )
    yield exactly(f"{name}: jobs that did not end", found.unfinished, "", 0)
    yield at_most(f"{name}: restarts, of GPU hours", 100.0 * found.restart_share, "%", 1.0)
    yield at_most(f"{name}: restarts per job", found.restarts_per_job, "", 3.0)
    yield told(f"{name}: most restarts of a job", found.most_restarts, "")
    audit = found.audit
    if audit.job_rounds:
        share = 100.0 * audit.below / audit.job_rounds
        yield at_most(f"{name}: job-rounds below promise", share, "%", 1.0)
        yield told(f"{name}: … of job-rounds", audit.job_rounds, "")
        yield told(f"{name}: worst speed over promised", audit.worst, "×")


def _beside(traces: Path) -> Iterator[Row]:
    for what, (recipe, own, known) in BESIDE.items():
        found = played(traces, "base", RECIPES[recipe](**own), tell_work=known)
        yield told(f"base, {what}: average JCT", found.jct_seconds, "s")
        yield told(f"base, {what}: makespan", found.makespan_seconds, "s")
        yield told(f"base, {what}: restarts, of GPU hours", 100.0 * found.restart_share, "%")
