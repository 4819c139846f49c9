"""Part e: how far the simulator's completion times are from those on a cluster.

A trial has three steps. A calibration runs a few jobs on the cluster and takes the mean time that a
job takes beyond its work. With this start cost the simulator predicts the mean completion time of
a workload that is known beforehand. Then the workload runs on the cluster. There is one prediction
for each run, made before the run begins. Each trial has a workload of its own seed.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.kube.admission import say
from benchmarks.kube.stand import Stand, stand
from benchmarks.row import Row, told
from tests.kube.operators import Lab, OperatorProcess, wait_until
from weft.brain.brain import Brain
from weft.brain.event import JobFinished, JobSubmitted, NodeAdded
from weft.kube.resources.training_job import TrainingJobSpec
from weft.lab.journals.journal_file import Entry, JournalFile
from weft.model.cluster import Cluster
from weft.model.errors import WorldError
from weft.model.ids import JobId, TenantId
from weft.model.job import Job
from weft.model.truth import JobTruth
from weft.sim.costs import Costs, constant
from weft.sim.world import Checks, World
from weft.spec.recipe import make_recipe
from weft.spec.request import to_request

RECIPE = "backfill(spacing=0.2)"
NAMESPACE = "agreement"
NODES, NODE_GPUS = 4, 8
MEAN_GAP_SECONDS = 0.3
MAX_WAIT_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Size:
    """How many jobs a calibration and a workload have, and how many trials there are."""

    calibration: int
    jobs: int
    trials: int


FULL = Size(calibration=100, jobs=200, trials=5)
SHORT = Size(calibration=10, jobs=20, trials=1)


@dataclass(frozen=True, slots=True)
class Planned:
    """One job of a workload."""

    name: str
    at_seconds: float
    gpus: int
    seconds: int

    @property
    def spec(self) -> dict[str, Any]:
        return {
            "nodes": max(self.gpus // NODE_GPUS, 1),
            "duration": f"{self.seconds}s",
            "env": {"KWOK_SECONDS": str(self.seconds)},
        }


@dataclass(frozen=True, slots=True)
class Trial:
    """Mean completion times of one workload, and the start cost that was measured before."""

    start_seconds: float
    predicted_seconds: float
    measured_seconds: float

    @property
    def error(self) -> float:
        """Percent by which the prediction is too long."""
        return 100.0 * (self.predicted_seconds / self.measured_seconds - 1.0)


def rows(*, short: bool) -> Iterator[Row]:
    """The difference over all trials."""
    size = SHORT if short else FULL
    with stand(full=True) as here:
        here.cluster.keep()  # what the chart installs survives every reset
        trials = [_trial(here, size, number) for number in range(size.trials)]
    errors = [trial.error for trial in trials]
    yield told(
        f"e: {size.jobs:,d} jobs: mean completion time predicted before the run, beyond the "
        f"cluster's, median of {size.trials}",
        round(median(errors), 1),
        "%",
        peer="each trial, %",
        peer_value=", ".join(f"{error:.1f}" for error in errors),
    )
    yield told("e: … the largest difference", round(max(map(abs, errors)), 1), "%")
    yield told(
        "e: … start cost that the calibrations measured, median",
        round(median(trial.start_seconds for trial in trials), 2),
        "s",
        peer="mean completion time on the cluster, median, s",
        peer_value=round(median(trial.measured_seconds for trial in trials), 1),
    )


def _trial(here: Stand, size: Size, number: int) -> Trial:
    say(f"trial {number + 1} of {size.trials}: calibration")
    entries = _run(here, list(workload(Random(f"calibration {number}"), size.calibration)))
    start_seconds = mean_overhead_seconds(entries)
    events = [entry.event for entry in entries]
    nodes = Cluster(tuple(event.node for event in events if isinstance(event, NodeAdded)))
    jobs = list(workload(Random(f"workload {number}"), size.jobs))
    predicted = predict(nodes, jobs, start_seconds)
    say(f"{predicted:.2f} s are predicted")
    events = [entry.event for entry in _run(here, jobs)]
    submitted = {event.job.id: event.at for event in events if isinstance(event, JobSubmitted)}
    ended = {event.job: event.at for event in events if isinstance(event, JobFinished)}
    measured = mean(ended[job] - at for job, at in submitted.items())
    say(f"{measured:.2f} s are measured")
    return Trial(start_seconds, predicted, measured)


def workload(random: Random, jobs: int) -> Iterator[Planned]:
    """Narrow and wide jobs of one to nine seconds, a little more than the nodes can take."""
    at = 0.0
    for number in range(jobs):
        at += random.expovariate(1.0 / MEAN_GAP_SECONDS)
        gpus = random.choices((1, 2, 4, 8, 16), (50, 15, 15, 15, 5))[0]
        yield Planned(f"job-{number:03}", at, gpus, random.randint(1, 9))


def predict(cluster: Cluster, jobs: Sequence[Planned], start_seconds: float) -> float:
    """Mean completion time in the simulator."""
    costs = Costs("measured", start=constant(start_seconds))
    brain = Brain(make_recipe(RECIPE))
    world = World(cluster, [_job(one) for one in jobs], brain, costs=costs, checks=Checks.FULL)
    times = [one.jct_seconds for one in world.run().jobs.values()]
    return mean(seconds for seconds in times if seconds is not None)


def mean_overhead_seconds(entries: Sequence[Entry]) -> float:
    """What a job takes from its decision to its end beyond its work, on average."""
    work: dict[JobId, float] = {}
    decided: dict[JobId, float] = {}
    overheads: list[float] = []
    for entry in entries:
        event = entry.event
        if isinstance(event, JobSubmitted) and event.job.work is not None:
            work[event.job.id] = event.job.work.amount
        elif isinstance(event, JobFinished):
            overheads.append(event.at - decided[event.job] - work[event.job])
        for verb, fields in entry.instructions:
            if verb == "start":
                decided[fields["job"]] = event.at
    return max(mean(overheads), 0.0)


def _job(planned: Planned) -> Job:
    request = to_request(
        TrainingJobSpec.model_validate(
            {"run": "train", "resources": {"gpus": planned.gpus}, **planned.spec}
        ),
        id=JobId(f"{NAMESPACE}/{planned.name}"),
        tenant=TenantId(NAMESPACE),
        submit_seconds=planned.at_seconds,
    )
    return Job(request, JobTruth.as_claimed(request, float(planned.seconds)))


def _run(here: Stand, jobs: Sequence[Planned]) -> list[Entry]:
    """On an empty cluster, with an operator of its own; what its journal has."""
    here.reset()
    here.cluster.add_nodes(NODES, gpus=NODE_GPUS)
    lab = Lab(here.cluster, NAMESPACE)
    with TemporaryDirectory(prefix="weft-bench-") as folder:
        journal = Path(folder) / "journal.jsonl"
        options: dict[str, object] = {"recipe": RECIPE, "journal": journal}
        with OperatorProcess(here.kubeconfig, Path(folder), options=options) as operator:
            wait_until(journal.exists, "the operator to lead")
            _submit(lab, jobs)
            wait_until(
                lambda: not operator.alive or set(lab.states().values()) == {"Succeeded"},
                "all jobs to end",
                MAX_WAIT_SECONDS,
                1.0,
            )
            if not operator.alive:
                raise WorldError("the operator ended during the run", hint="repeat the part")
        return list(JournalFile(journal).entries())


def _submit(lab: Lab, jobs: Sequence[Planned]) -> None:
    began = time.monotonic()
    for job in jobs:
        time.sleep(max(began + job.at_seconds - time.monotonic(), 0.0))
        lab.submit(job.name, job.gpus, **job.spec)
