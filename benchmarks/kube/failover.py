"""Part d: how long a cluster of a known size is without a leader when one is killed.

The operator decides and records (`--workers none`), so that tens of thousands of jobs can be on
record as running without a pod each. A standby runs beside it. The leader is killed as a machine
that loses power kills it, and at the same moment somebody submits a job; the time is until that job
is decided. Of it, a lease that nobody renews takes about thirteen seconds to be free.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from benchmarks.kube.admission import say
from benchmarks.kube.bare import NODE_GPUS
from benchmarks.kube.onlooker import Onlooker, onlooker
from benchmarks.kube.stand import Stand, leads, log_of, stand, wait_until_it_leads
from benchmarks.kube.usage import resident_mib
from benchmarks.row import Row, at_most, told
from tests.kube.operators import OperatorProcess
from weft.kube.names import API_VERSION, queues_path
from weft.model.errors import WorldError

NAMESPACE = "failover"
RECIPE = "backfill(spacing=0.1)"
CROWD, FREE = "crowd", "free"
FAILOVER_BAR_SECONDS = 20.0
PATIENCE_SECONDS = 900.0
WARM_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it; so many of the jobs run, and all others wait."""

    nodes: int
    jobs: int
    running: int


FULL = Size(nodes=5_000, jobs=50_000, running=10_000)
SHORT = Size(nodes=200, jobs=2_000, running=400)


@dataclass(frozen=True, slots=True)
class Failover:
    """Seconds since the kill, and what the standby says of itself."""

    led: float
    decided: float
    took_in_seconds: float
    standby_mib: float


def rows(*, short: bool) -> Iterator[Row]:
    """One scene."""
    size = SHORT if short else FULL
    with stand(full=False) as here:
        _prepare(here, size)
        found = asyncio.run(_fail_over(here, size))
    name = f"d: {size.nodes:,d} nodes, {size.jobs:,d} jobs"
    yield at_most(
        f"{name}: from the leader's end to a decision", found.decided, "s", FAILOVER_BAR_SECONDS
    )
    yield told("d: … until the standby led and had caught up", found.led, "s")
    yield told("d: … of this, to take all jobs in", found.took_in_seconds, "s")
    yield told("d: … the standby's memory before", found.standby_mib, "MiB")


def _prepare(here: Stand, size: Size) -> None:
    here.cluster.add_namespace(NAMESPACE)
    for name, spec in {CROWD: {"limit": size.running}, FREE: {}}.items():
        about = {"apiVersion": API_VERSION, "kind": "Queue", "metadata": {"name": name}}
        here.cluster.api.must("POST", queues_path(), {**about, "spec": spec})
    say(f"{size.nodes:,d} nodes")
    here.cluster.add_nodes(size.nodes, gpus=NODE_GPUS)


async def _fail_over(here: Stand, size: Size) -> Failover:
    options: dict[str, object] = {"recipe": RECIPE, "workers": "none"}
    with TemporaryDirectory(prefix="weft-bench-") as folder:
        one = OperatorProcess(here.kubeconfig, Path(folder), name="one", options=options)
        two = OperatorProcess(here.kubeconfig, Path(folder), name="two", options=options)
        with one:
            wait_until_it_leads(one)
            async with onlooker(here.cluster.kubeconfig(), NAMESPACE) as seen:
                await _fill(seen, size)
                with two:
                    await _until_warm(two)
                    return await _kill(seen, one, two)


async def _fill(seen: Onlooker, size: Size) -> None:
    say(f"{size.jobs:,d} jobs")
    one = {"resources": {"gpus": 1}, "queue": CROWD}
    await seen.submit_all({f"one-{number}": one for number in range(size.jobs)})
    say(f"{size.running:,d} of them run")
    await seen.until(
        lambda: seen.are("Running") == size.running, "all who may run", PATIENCE_SECONDS
    )


async def _until_warm(standby: OperatorProcess) -> None:
    """It has listed all there is, as it says."""
    say("a standby")
    deadline = time.monotonic() + WARM_SECONDS
    while '"followed"' not in (said := log_of(standby)):
        if time.monotonic() > deadline:
            raise WorldError(f"the standby does not follow: {said[-2000:]}")
        await asyncio.sleep(0.2)


async def _kill(seen: Onlooker, one: OperatorProcess, two: OperatorProcess) -> Failover:
    memory = resident_mib(two.pid)
    say("the leader is killed")
    one.kill()
    killed = time.monotonic()
    await seen.submit("next", resources={"gpus": 1}, queue=FREE)
    leading = asyncio.create_task(_led_at(two))
    decided = await seen.until(
        lambda: "next" in seen.jobs and seen.jobs["next"].state == "Running",
        "a decision",
        PATIENCE_SECONDS,
    )
    return Failover(await leading - killed, decided - killed, _taken_in(two), memory)


async def _led_at(process: OperatorProcess) -> float:
    while not leads(process):
        await asyncio.sleep(0.05)
    return time.monotonic()


def _taken_in(process: OperatorProcess) -> float:
    for line in log_of(process).splitlines():
        if '"term_begun"' in line:
            return float(orjson.loads(line)["seconds"])
    return float("nan")
