"""One scheduler core, two backends: the journal of a cluster replays, and the simulator agrees.

The journal that the operator records must replay to the same instructions, byte for byte. The same
jobs in the simulator start in the same order, and before each start the same jobs have ended. The
jobs are chosen so that GPUs alone determine both, whatever a start costs. How far the times of the
two backends are apart is measured by `python -m benchmarks kube --only e`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kube.installed import install_chart
from tests.kube.operators import Lab, OperatorProcess, wait_until
from tools.testcluster import ControlPlane
from weft.brain.brain import Brain
from weft.brain.event import Event, JobFinished, JobSubmitted, NodeAdded
from weft.brain.instruction import Instruction, Start
from weft.brain.journal import Journal
from weft.lab.journals.journal_file import JournalFile
from weft.lab.journals.replay import replay
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.truth import JobTruth
from weft.sim.costs import Costs, constant
from weft.sim.world import Checks, World
from weft.spec.recipe import make_recipe

RECIPE = "backfill(spacing=0.2)"
FIRST = "first"
#: GPUs and seconds. Two nodes have sixteen; `filler` is the only one that fits beside another.
AFTER_IT = {"gang": (16, 1), "long": (8, 6), "next": (16, 1), "filler": (8, 1), "last": (16, 1)}
STARTS = (FIRST, "gang", "long", "filler", "next", "last")

#: A job that starts, and all that have ended before.
Starts = list[tuple[str, frozenset[str]]]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_journal_replays_and_the_simulator_agrees_on_the_order(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    path = tmp_path / "journal.jsonl"
    _run_on(cluster, path, tmp_path)

    assert replay(path).records > 4 * len(STARTS)

    entries = list(JournalFile(path).entries())
    on_cluster = starts_of((entry.event, _started(entry.instructions)) for entry in entries)
    assert tuple(name for name, _ in on_cluster) == STARTS
    for start_seconds in (0.0, 2.0):
        assert simulate([entry.event for entry in entries], start_seconds) == on_cluster


def _run_on(cluster: ControlPlane, journal: Path, folder: Path) -> None:
    """All are submitted while the first holds all GPUs, so that their order is theirs alone."""
    kubeconfig = install_chart(cluster)
    cluster.add_nodes(2, gpus=8)
    lab = Lab(cluster)
    with OperatorProcess(kubeconfig, folder, options={"recipe": RECIPE, "journal": journal}):
        lab.submit(FIRST, 16, nodes=2, duration="10m")
        lab.await_workers(FIRST)
        for name, (gpus, seconds) in AFTER_IT.items():
            lab.submit(
                name,
                gpus,
                nodes=gpus // 8,
                duration=f"{seconds}s",
                env={"KWOK_SECONDS": str(seconds)},
            )
            lab.wait_for(name, "Queued")
        lab.finish(FIRST, 1)
        wait_until(lambda: set(lab.states().values()) == {"Succeeded"}, "all jobs to end")


def simulate(events: Sequence[Event], start_seconds: float) -> Starts:
    """The same jobs, submitted at the same times to the same nodes."""
    nodes = tuple(event.node for event in events if isinstance(event, NodeAdded))
    requests = [event.job for event in events if isinstance(event, JobSubmitted)]
    begin = requests[0].submit_seconds
    jobs = []
    for request in requests:
        assert request.work is not None
        moved = replace(request, submit_seconds=request.submit_seconds - begin)
        jobs.append(Job(moved, JobTruth.as_claimed(moved, request.work.amount)))
    kept = Kept()
    World(
        Cluster(nodes),
        jobs,
        Brain(make_recipe(RECIPE)),
        costs=Costs("fixed", start=constant(start_seconds)),
        journal=kept,
        checks=Checks.FULL,
    ).run()
    return starts_of(kept.entries)


class Kept(Journal):
    """Keeps each event and the jobs that were started because of it."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[tuple[Event, list[str]]] = []

    def record(self, event: Event, instructions: Sequence[Instruction]) -> None:
        super().record(event, instructions)
        started = [str(one.job) for one in instructions if isinstance(one, Start)]
        self.entries.append((event, started))


def starts_of(entries: Iterable[tuple[Event, list[str]]]) -> Starts:
    starts: Starts = []
    ended: set[str] = set()
    for event, started in entries:
        if isinstance(event, JobFinished):
            ended.add(_short(event.job))
        starts += [(_short(job), frozenset(ended)) for job in started]
    return starts


def _started(instructions: Iterable[tuple[str, dict[str, str]]]) -> list[str]:
    return [fields["job"] for verb, fields in instructions if verb == "start"]


def _short(job: str) -> str:
    return job.rpartition("/")[2]
