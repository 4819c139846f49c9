"""One brain, two worlds: what a cluster did, the brain does again, and the simulator foretells.

Two hundred jobs, scaled down to seconds, run on the real API server with pods that end by
themselves. The journal recorded there must replay to the same instructions, byte for byte. The same
jobs in the simulated world must take as long on average. What a start costs there is measured on
the jobs that came first; only those that came later are judged, and nothing of them is told.

A start that costs some milliseconds more can let another job go first, and all that follow differ:
between start costs of 60 and 180 ms the foretold mean jumps between schedules 10 to 15 % apart. So
the simulator foretells once for each of several start costs among those measured, and what the
cluster did must be among what it foretold.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import mean

import pytest

from tests.kube.installed import install_chart
from tests.kube.operators import Lab, OperatorProcess, wait_until
from tools.testcluster import ControlPlane
from weft.brain.brain import Brain
from weft.brain.event import InstructionDone, JobFinished, JobSubmitted, NodeAdded, Verb
from weft.lab.journals.journal_file import Entry, JournalFile
from weft.lab.journals.replay import replay
from weft.model.cluster import Cluster
from weft.model.ids import JobId
from weft.model.job import Job
from weft.model.request import JobRequest
from weft.model.truth import JobTruth
from weft.sim.costs import Costs, constant
from weft.sim.world import Checks, World
from weft.spec.recipe import make_recipe

RECIPE = "backfill(spacing=0.2)"
JOBS = 200
NODES = 4
MEAN_GAP_SECONDS = 0.3
LEARNT_FROM = JOBS // 2
TOLERANCE = 0.04
FORETELLINGS = 15


@dataclass(frozen=True, slots=True)
class Planned:
    """One job of the workload."""

    name: str
    at_seconds: float
    gpus: int
    seconds: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What the journal tells of one job."""

    job: JobRequest
    submitted: float
    decided: float
    started: float
    finished: float

    @property
    def overhead_seconds(self) -> float:
        """All that is not training: until it runs, and until its end is noticed."""
        assert self.job.work is not None
        return self.finished - self.decided - self.job.work.amount


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_a_workload_on_a_cluster_and_in_the_simulator(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = install_chart(cluster)
    cluster.add_nodes(NODES, gpus=8)
    lab = Lab(cluster)
    journal = tmp_path / "journal.jsonl"
    with OperatorProcess(kubeconfig, tmp_path, options={"recipe": RECIPE, "journal": journal}):
        wait_until(journal.exists, "the operator to lead")
        submit_all(lab, list(workload(Random(7))))
        wait_until(lambda: set(lab.states().values()) == {"Succeeded"}, "all to end", 300.0, 1.0)

    assert replay(journal).records > 4 * JOBS

    entries = list(JournalFile(journal).entries())
    seen = list(follow(entries))
    assert len(seen) == JOBS
    seen.sort(key=lambda one: one.submitted)
    measured = mean(one.finished - one.submitted for one in seen[LEARNT_FROM:])
    foretold = [simulate(entries, seen, seconds) for seconds in start_costs(seen[:LEARNT_FROM])]
    least, most, nearest = min(foretold), max(foretold), closest(foretold, measured)
    print(f"mean JCT: cluster {measured:.2f} s, simulated {least:.2f} to {most:.2f} s")  # noqa: T201
    assert abs(nearest / measured - 1.0) <= TOLERANCE


def start_costs(learnt: list[Seen]) -> list[float]:
    """Means that the start cost of these jobs may have had: each over one part of them."""
    costs = [max(one.overhead_seconds, 0.0) for one in learnt]
    return [mean(costs[part::FORETELLINGS]) for part in range(FORETELLINGS)]


def closest(numbers: list[float], to: float) -> float:
    return min(numbers, key=lambda number: abs(number - to))


def workload(random: Random) -> Iterator[Planned]:
    """Narrow and wide jobs of one to nine seconds, a little more than the nodes can take."""
    at = 0.0
    for number in range(JOBS):
        at += random.expovariate(1.0 / MEAN_GAP_SECONDS)
        gpus = random.choices((1, 2, 4, 8, 16), (50, 15, 15, 15, 5))[0]
        yield Planned(f"job-{number:03}", at, gpus, random.randint(1, 9))


def submit_all(lab: Lab, jobs: list[Planned]) -> None:
    began = time.monotonic()
    for job in jobs:
        time.sleep(max(began + job.at_seconds - time.monotonic(), 0.0))
        lab.submit(
            job.name,
            job.gpus,
            nodes=max(job.gpus // 8, 1),
            duration=f"{job.seconds}s",
            env={"KWOK_SECONDS": str(job.seconds)},
        )


def follow(entries: list[Entry]) -> Iterator[Seen]:
    """Each job from its submission to its end."""
    jobs: dict[JobId, tuple[float, JobRequest]] = {}
    decided: dict[JobId, float] = {}
    started: dict[JobId, float] = {}
    for entry in entries:
        event = entry.event
        if isinstance(event, JobSubmitted):
            jobs[event.job.id] = (event.at, event.job)
        elif isinstance(event, InstructionDone) and event.verb is Verb.START:
            started[event.job] = event.at
        elif isinstance(event, JobFinished):
            at, job = jobs[event.job]
            begun = started.get(event.job, event.at)
            yield Seen(job, at, decided[event.job], begun, event.at)
        for verb, fields in entry.instructions:
            if verb == "start":
                decided[fields["job"]] = event.at


def simulate(entries: list[Entry], seen: list[Seen], start_seconds: float) -> float:
    """Mean JCT of the later jobs, when all run on the same nodes in the simulated world."""
    nodes = tuple(entry.event.node for entry in entries if isinstance(entry.event, NodeAdded))
    begin = seen[0].submitted
    jobs = [_as_claimed(replace(one.job, submit_seconds=one.submitted - begin)) for one in seen]
    costs = Costs("measured", start=constant(start_seconds))
    brain = Brain(make_recipe(RECIPE))
    record = World(Cluster(nodes), jobs, brain, costs=costs, checks=Checks.FULL).run()
    times = [record.jobs[one.job.id].jct_seconds for one in seen[LEARNT_FROM:]]
    assert None not in times
    return mean(seconds for seconds in times if seconds is not None)


def _as_claimed(request: JobRequest) -> Job:
    assert request.work is not None
    return Job(request, JobTruth.as_claimed(request, request.work.amount))
