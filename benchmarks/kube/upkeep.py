"""Part c: what Weft costs its cluster: preemptions with grace, memory, and writes.

Writes are counted where they arrive. A lifecycle change is a change of a job's state; what is
written for it (decision, finalizer, pods, service, status, Events) is divided by the job's pods.
Between two changes of state a job's status may be refreshed, but not twice within five seconds.
"""

import asyncio
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from benchmarks.kube.admission import say
from benchmarks.kube.bare import NODE_GPUS
from benchmarks.kube.calls import Calls, calls_of, writes
from benchmarks.kube.filling import BORROWER, OWNER, PATIENCE_SECONDS, RECIPE
from benchmarks.kube.onlooker import JobStory, Onlooker, onlooker
from benchmarks.kube.stand import Stand, stand
from benchmarks.kube.usage import resident_mib, usage_of
from benchmarks.row import Row, at_least, at_most, told
from tests.kube.operators import OperatorProcess
from weft.kube.client.api import Api
from weft.kube.names import API_VERSION, GROUP, queues_path
from weft.kube.reading.waits import list_waits
from weft.kube.seat_runs import seats_of

NAMESPACE = "upkeep"
CAPPED = "capped"
FINAL = ("Succeeded", "Failed", "Cancelled")
SPACING_SECONDS = 5.0
# The clerk keeps its five seconds by its own clock; a watch tells of a write some moments later.
SPACING_SLACK_SECONDS = 0.5
PREEMPTIONS_BAR_SECONDS = 60.0
TELLING_SECONDS = 300.0
TOLD_BAR_SECONDS = 10.0
POLL_SECONDS = 0.25
RSS_BAR_MIB = 400e6 / 2**20
WRITES_BAR = 2.0


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it; `capped_gpus` are all that the many jobs may use, so that most wait."""

    preempted: int
    grace_seconds: int
    nodes: int
    jobs: int
    capped_gpus: int
    busy_nodes: int
    busy_jobs: int


FULL = Size(100, 30, nodes=5_000, jobs=10_000, capped_gpus=1_000, busy_nodes=12, busy_jobs=200)
SHORT = Size(10, 3, nodes=200, jobs=400, capped_gpus=100, busy_nodes=4, busy_jobs=30)


@dataclass(frozen=True, slots=True)
class Preempted:
    """Seconds from the claim."""

    decided: float
    gone: float
    claimed: float


@dataclass(frozen=True, slots=True)
class Written:
    """What a busy while wrote."""

    jobs: int
    per_pod_and_change: float
    pod_writes_per_pod_and_change: float
    closest_refreshes_seconds: float
    status_per_job_and_spacing: float


def rows(*, short: bool) -> Iterator[Row]:
    """Three scenes, each on an empty cluster of its own size."""
    size = SHORT if short else FULL
    with stand(full=True) as here:
        _prepare(here, size)
        say(f"{size.preempted} preemptions with {size.grace_seconds} s grace")
        yield from _preemption_rows(size, asyncio.run(_preempt(here, size)))
        here.reset()
        say(f"writes of {size.busy_jobs} jobs")
        yield from _write_rows(asyncio.run(_busy(here, size)), judged=not short)
        here.reset()
        say(f"memory at {size.nodes:,d} nodes and {size.jobs:,d} jobs")
        yield from asyncio.run(_memory(here, size, judged=not short))


def _prepare(here: Stand, size: Size) -> None:
    cluster = here.cluster
    cluster.add_namespace(NAMESPACE)
    specs = {
        BORROWER: {"guaranteed": 0},
        OWNER: {"guaranteed": size.preempted * NODE_GPUS},
        CAPPED: {"limit": size.capped_gpus},
    }
    for name, spec in specs.items():
        body = {
            "apiVersion": API_VERSION,
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": spec,
        }
        cluster.api.must("POST", queues_path(), body)
    cluster.keep()


# --- preemptions ------------------------------------------------------------------------------


async def _preempt(here: Stand, size: Size) -> Preempted:
    """One claim takes every node back from a job that takes its whole grace to save."""
    here.cluster.add_nodes(size.preempted, gpus=NODE_GPUS)
    with here.operator(recipe=RECIPE):
        async with onlooker(here.cluster.kubeconfig(), NAMESPACE) as seen:
            victim = {
                "resources": {"gpus": NODE_GPUS},
                "queue": BORROWER,
                "grace": f"{size.grace_seconds}s",
                "env": {"KWOK_GRACE_SECONDS": str(size.grace_seconds)},
            }
            await seen.submit_all({f"victim-{number}": victim for number in range(size.preempted)})
            await seen.until(
                lambda: seen.are("Running") == size.preempted, "victims", PATIENCE_SECONDS
            )
            return await _claim(seen, size)


async def _claim(seen: Onlooker, size: Size) -> Preempted:
    gpus = size.preempted * NODE_GPUS
    sent = await seen.submit("claim", resources={"gpus": gpus}, queue=OWNER)
    decided = await seen.until(
        lambda: seen.are("Running") == 0, "the end of all victims on record", PATIENCE_SECONDS
    )
    gone = await seen.until(
        lambda: not any(name.startswith("victim") for name in seen.pods),
        "the victims' pods to go",
        PATIENCE_SECONDS,
    )
    claimed = await seen.until(
        lambda: len(seen.running_pods) == size.preempted, "the claimant's pods", PATIENCE_SECONDS
    )
    return Preempted(decided - sent, gone - sent, claimed - sent)


def _preemption_rows(size: Size, found: Preempted) -> Iterator[Row]:
    name = f"c: {size.preempted} preemptions with {size.grace_seconds} s grace"
    yield at_most(f"{name}: all gone", found.gone, "s", PREEMPTIONS_BAR_SECONDS)
    yield told(f"{name}: all on record", found.decided, "s")
    yield told(f"{name}: the claimant runs", found.claimed, "s")


# --- writes -----------------------------------------------------------------------------------


async def _busy(here: Stand, size: Size) -> Written:
    """Jobs of several widths come for twice what the cluster holds, run for seconds, and end."""
    here.cluster.add_nodes(size.busy_nodes, gpus=NODE_GPUS)
    random = Random(7)
    with here.operator(recipe=RECIPE):
        async with onlooker(here.cluster.kubeconfig(), NAMESPACE) as seen:
            calls = calls_of(here.cluster)
            for number in range(size.busy_jobs):
                gpus = random.choice((1, 1, 2, 4, 8, 16, 32))
                seconds = f"{random.uniform(2.0, 10.0):.1f}"
                await seen.submit(
                    f"busy-{number}", resources={"gpus": gpus}, env={"KWOK_SECONDS": seconds}
                )
                await asyncio.sleep(0.05)
            await seen.until(
                lambda: seen.are(*FINAL) == size.busy_jobs, "all jobs to end", PATIENCE_SECONDS
            )
            calls = calls_of(here.cluster) - calls
            return _written(seen, calls, _own_events(here))


def _written(seen: Onlooker, calls: Calls, events: int) -> Written:
    stories = list(seen.jobs.values())
    changes = sum(pods_of(story) * changes_of(story) for story in stories)
    pod_writes = writes(calls, "pods")
    own = pod_writes + events
    own += writes(calls, "services", "trainingjobs/status", "trainingjobs") - len(stories)
    refreshes = [gap for story in stories for gap in refresh_gaps(story)]
    spacings = sum(_life_seconds(story) / SPACING_SECONDS + 1 for story in stories)
    return Written(
        jobs=len(stories),
        per_pod_and_change=own / changes,
        pod_writes_per_pod_and_change=pod_writes / changes,
        closest_refreshes_seconds=min(refreshes, default=float("inf")),
        status_per_job_and_spacing=sum(len(story.writes) for story in stories) / spacings,
    )


def pods_of(story: JobStory) -> int:
    return len(seats_of(story.status.get("decision", {})))


def changes_of(story: JobStory) -> int:
    """How often its state changed, the first one included."""
    return sum(seen.changed for seen in story.writes)


def refresh_gaps(story: JobStory) -> list[float]:
    """Seconds between each write that kept the state and the one before it, if that did too."""
    gaps = []
    for before, after in zip(story.writes, story.writes[1:], strict=False):
        if not after.changed and not before.changed:
            gaps.append(after.at - before.at)
    return gaps


def _life_seconds(story: JobStory) -> float:
    return story.writes[-1].at - story.writes[0].at


def _own_events(here: Stand) -> int:
    path = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
    with here.cluster.connect() as fresh:
        found = fresh.must("GET", path)["items"]
    return sum(event.get("reportingController") == f"{GROUP}/operator" for event in found)


def _write_rows(found: Written, *, judged: bool) -> Iterator[Row]:
    name = f"c: {found.jobs} busy jobs"
    yield at_most(
        f"{name}: all writes per pod and lifecycle change",
        found.per_pod_and_change,
        "writes",
        WRITES_BAR,
    )
    yield told(f"{name}: … of these, to pods", found.pod_writes_per_pod_and_change, "writes")
    each, per_spacing = f"{name}: status writes per job and 5 s", found.status_per_job_and_spacing
    if judged:
        yield at_most(each, per_spacing, "writes", 1.0)
    else:
        yield told(each, per_spacing, "writes")
    closest, what = found.closest_refreshes_seconds, f"{name}: closest two refreshes of one status"
    if math.isinf(closest):
        yield told(what, "there were none", "")
    else:
        yield at_least(what, closest, "s", SPACING_SECONDS - SPACING_SLACK_SECONDS)


# --- memory -----------------------------------------------------------------------------------


async def _memory(here: Stand, size: Size, *, judged: bool) -> list[Row]:
    """Most jobs wait, and each has been told why."""
    began = time.monotonic()
    here.cluster.add_nodes(size.nodes, gpus=NODE_GPUS)
    say(f"  {size.nodes:,d} nodes after {time.monotonic() - began:.0f} s")
    with here.operator(recipe=RECIPE) as operator:
        async with onlooker(here.cluster.kubeconfig(), NAMESPACE) as seen:
            one = {"resources": {"gpus": 1}, "queue": CAPPED}
            await seen.submit_all({f"one-{number}": one for number in range(size.jobs)})
            submitted = time.monotonic()
            say(f"  {size.jobs:,d} jobs after {submitted - began:.0f} s")
            known = await _until_told(here, seen, size)
            telling = time.monotonic() - submitted
            await seen.until(
                lambda: seen.are("Running") == size.capped_gpus, "all who may run", PATIENCE_SECONDS
            )
            return _memory_rows(operator, size, known, telling, judged=judged)


async def _until_told(here: Stand, seen: Onlooker, size: Size) -> int:
    """Ask as a user does until every job is placed or can be read to wait, and why."""
    deadline, known = time.monotonic() + TELLING_SECONDS, 0
    async with await Api.connect(kubeconfig=str(here.cluster.kubeconfig())) as api:
        while known < size.jobs and time.monotonic() < deadline:
            waits = await list_waits(api, NAMESPACE)
            told = {name for (_, name), wait in waits.items() if wait.reasons}
            placed = {name for name, story in seen.jobs.items() if story.status.get("decision")}
            known = len(told | placed)
            await asyncio.sleep(POLL_SECONDS)
    return known


def _memory_rows(
    operator: OperatorProcess, size: Size, known: int, seconds: float, *, judged: bool
) -> list[Row]:
    name = f"c: {size.nodes:,d} nodes, {size.jobs:,d} jobs"
    used, now = usage_of(operator.pid), resident_mib(operator.pid)
    most = f"{name}: operator's most memory"
    why = f"{name}: … {known:,d} of them can be told why after"
    return [
        at_most(most, used.peak_mib, "MiB", round(RSS_BAR_MIB, 1))
        if judged
        else told(most, used.peak_mib, "MiB"),
        told(f"{name}: … at the end", now, "MiB"),
        told(f"{name}: … operator's processor", used.cpu_seconds, "s"),
        at_most(why, seconds, "s", TOLD_BAR_SECONDS) if judged else told(why, seconds, "s"),
    ]
