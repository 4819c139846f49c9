"""Part a: Kueue's baseline, admitted by Weft, by Kueue, and by nobody.

Queues are the only limit, as in the peer's run: one hollow node has all GPUs. The operator decides
and records (`--workers none`); the end of each job is written by the executor. The recipe is first
come, first served by priority within a queue, with rounds 0.1 s apart because jobs last 0.2 s.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from benchmarks.kube.baseline import CLASSES, TOTAL_GPUS, Work
from benchmarks.kube.calls import Calls, calls_of, writes
from benchmarks.kube.executor import Outcome
from benchmarks.kube.kueue import KueueOutcome, run_kueue
from benchmarks.kube.stand import Stand, stand
from benchmarks.kube.usage import Usage, usage_of
from benchmarks.row import Row, aims_at, at_most, below_peer, broken, exactly, told
from weft.kube.names import queues_path
from weft.model.errors import WorldError

RECIPE = "fifo(spacing=0.1)"
SHORT_SHARE = 1 / 15
WALL_BAR = 0.4
BARE_AIM = 1.5
PEER = "Kueue at 300 calls/s, as installed"
EXECUTOR, BARE = "benchmarks.kube.executor", "benchmarks.kube.bare"
PLENTY_SECONDS = 2_000.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of Weft: how the work went, and what it cost."""

    outcome: Outcome
    operator: Usage
    engine_cpu_seconds: float
    calls: Calls


def rows(*, short: bool) -> Iterator[Row]:
    """The bare engine, Weft, then Kueue as it is installed."""
    work = Work(SHORT_SHARE if short else 1.0)
    say(f"bare engine, {work.jobs:,d} jobs")
    bare_seconds = measure_bare(work)
    say(f"Weft, {RECIPE}, {work.jobs:,d} jobs")
    measured = measure_weft(work)
    yield from _weft_rows(work, measured, bare_seconds)
    if short:
        yield told("a: beside Kueue: not in the short form", None, "")
        return
    yield from _peer_rows(work, measured)


def measure_bare(work: Work) -> float:
    with stand(full=False) as here:
        _prepare(here, work)
        player = here.play(BARE, "jobs", here.cluster.kubeconfig(), work.share)
        return float(player.outcome(PLENTY_SECONDS))


def measure_weft(work: Work) -> Measured:
    with stand(full=False) as here:
        _prepare(here, work)
        server = here.cluster.pids()["kube-apiserver"]
        with here.operator(recipe=RECIPE, workers="none") as operator:
            calls, engine = calls_of(here.cluster), usage_of(server)
            player = here.play(EXECUTOR, here.cluster.kubeconfig(), work.share)
            outcome = Outcome(**orjson.loads(player.outcome(PLENTY_SECONDS)))
            engine = usage_of(server).since(engine)
            calls = calls_of(here.cluster) - calls
            return Measured(outcome, usage_of(operator.pid), engine.cpu_seconds, calls)


def _prepare(here: Stand, work: Work) -> None:
    cluster = here.cluster
    cluster.add_nodes(1, gpus=TOTAL_GPUS, cpus=100_000, memory_gib=100_000, prefix="all")
    for queue in work.queues:
        cluster.add_namespace(queue)
    for body in work.queue_objects():
        cluster.api.must("POST", queues_path(), body)


def _weft_rows(work: Work, measured: Measured, bare_seconds: float) -> Iterator[Row]:
    ours = measured.outcome
    yield exactly("a: jobs that came, were admitted and ended", ours.jobs, "jobs", work.jobs)
    yield told("a: recipe", RECIPE, "")
    yield told(
        "a: wall",
        ours.wall_seconds,
        "s",
        peer="the work over the GPUs, s",
        peer_value=work.least_seconds,
    )
    yield aims_at(
        "a: wall / bare engine's",
        ours.wall_seconds / bare_seconds,
        "×",
        BARE_AIM,
        peer="bare engine, s",
        peer_value=bare_seconds,
    )
    yield told("a: until the last job was created", ours.creating_seconds, "s")
    for name, seconds in ours.admission_seconds.items():
        yield told(f"a: time to admission, {name}", seconds, "s")
    yield told("a: average use of the quota", 100 * ours.usage, "%")
    yield told("a: preempted", ours.preempted, "times")
    yield told("a: operator, processor", measured.operator.cpu_seconds, "s")
    yield told("a: operator, most memory", measured.operator.peak_mib, "MiB")
    yield told("a: API server, processor", measured.engine_cpu_seconds, "s")
    yield from _call_rows(work, measured)


def _call_rows(work: Work, measured: Measured) -> Iterator[Row]:
    """What the operator wrote, beside the executor's two writes for each job."""
    jobs = writes(measured.calls, "trainingjobs/status") - work.jobs
    yield told("a: operator's status writes", jobs / work.jobs, "a job")
    yield told("a: operator's events", writes(measured.calls, "events") / work.jobs, "a job")
    refused = sum(n for call, n in measured.calls.items() if call.code.startswith(("4", "5")))
    yield told("a: calls refused", refused, "calls")
    yield told("a: all calls", sum(measured.calls.values()), "calls")


def _peer_rows(work: Work, measured: Measured) -> Iterator[Row]:
    say(PEER)
    try:
        theirs = run_kueue(work)
    except WorldError as error:
        yield broken(f"a: {PEER}", str(error))
        return
    yield from _beside(measured, theirs)


def _beside(measured: Measured, theirs: KueueOutcome) -> Iterator[Row]:
    ours, cost = measured.outcome, measured.operator
    ratio, wall = ours.wall_seconds / theirs.wall_seconds, theirs.wall_seconds
    yield at_most(f"a: wall / {PEER}", ratio, "×", WALL_BAR, peer=f"{PEER}, s", peer_value=wall)
    pairs = [
        (
            f"time to admission, {each.name}",
            ours.admission_seconds[each.name],
            theirs.admission_seconds[each.name],
            "s",
        )
        for each in CLASSES
    ]
    pairs += [
        ("scheduler, processor", cost.cpu_seconds, theirs.cpu_seconds, "s"),
        ("scheduler, most memory", cost.peak_mib, theirs.peak_mib, "MiB"),
    ]
    for name, mine, its, unit in pairs:
        yield below_peer(f"a: {name}", mine, unit, peer=PEER, peer_value=its)
    use = 100 * theirs.usage
    yield told("a: average use of the quota", 100 * ours.usage, "%", peer=PEER, peer_value=use)
    yield told("a: preempted", ours.preempted, "times", peer=PEER, peer_value=theirs.evictions)


def say(what: str) -> None:
    """Progress, because a part takes minutes."""
    print(f"  {what} …", file=sys.stderr, flush=True)
