"""Part b: KAI's scale set on 500 fake nodes × 8 GPUs, on the stock scheduler and with real pods.

What is the same: the nodes, 4,000 jobs of one GPU, a gang of 512 pods, an 80-GPU gang on a full
cluster, a 2,000-GPU job that reclaims. What differs: Weft gives a gang one pod on each node, so its
512 pods have 8 GPUs each and stand on 512 nodes; there a pod has one GPU and 64 nodes suffice.
KAI's figures are from its own machines, so they are told and nothing is held against them; the bare
engine runs here.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.kube.admission import BARE, BARE_AIM, PLENTY_SECONDS, say
from benchmarks.kube.bare import NODE_GPUS
from benchmarks.kube.onlooker import Onlooker, onlooker
from benchmarks.kube.stand import Stand, stand
from benchmarks.row import Row, aims_at, told
from weft.kube.names import API_VERSION, queues_path

NAMESPACE = "fill"
BORROWER, OWNER = "borrower", "owner"
RECIPE = "backfill(spacing=0.1)"
PATIENCE_SECONDS = 600.0
KAI_SECONDS = {"fill": 397.8, "gang": 48.7, "verdict": 249.5, "reclaim": 102.0}
AIM_SECONDS = {"fill": 120.0, "gang": 15.0, "verdict": 5.0, "reclaim": 10.0}


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it."""

    nodes: int
    gang_pods: int
    verdict_gpus: int
    reclaim_gpus: int

    @property
    def gpus(self) -> int:
        return self.nodes * NODE_GPUS


FULL = Size(nodes=500, gang_pods=512, verdict_gpus=80, reclaim_gpus=2_000)
SHORT = Size(nodes=20, gang_pods=24, verdict_gpus=80, reclaim_gpus=80)


@dataclass(frozen=True, slots=True)
class Filled:
    """Seconds from the first submission, and what was said of the job that cannot fit."""

    created: float
    placed: float
    told: float
    verdict: float
    reason: str
    decided: float
    recorded: float
    reclaimed: float


def rows(*, short: bool) -> Iterator[Row]:
    """The bare engine's three figures first, then Weft's four."""
    size = SHORT if short else FULL
    with stand(full=True) as here:
        _prepare(here, size)
        bare = _bare(here, size)
        say("Weft, gang")
        gang = asyncio.run(_gang(here, size))
        yield from _gang_rows(size, gang, bare, timed=not short)
        here.reset()
        say("Weft, fill, verdict and reclaim")
        filled = asyncio.run(_fill(here, size))
        yield from _fill_rows(size, filled, bare, timed=not short)


def _prepare(here: Stand, size: Size) -> None:
    """Two queues: one borrows all that the other is guaranteed."""
    cluster = here.cluster
    cluster.add_namespace(NAMESPACE)
    guarantees = {BORROWER: size.gpus - size.reclaim_gpus, OWNER: size.reclaim_gpus}
    for name, gpus in guarantees.items():
        body = {
            "apiVersion": API_VERSION,
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {"guaranteed": gpus},
        }
        cluster.api.must("POST", queues_path(), body)
    cluster.add_nodes(size.nodes, gpus=NODE_GPUS)
    cluster.keep()


def _bare(here: Stand, size: Size) -> dict[str, float]:
    """Each on an empty cluster, but for the stops, which need pods to stop."""
    found = {}
    words = {
        "fill": (size.gpus,),
        "stop": (size.reclaim_gpus,),
        "gang": (size.gang_pods, size.nodes),
    }
    for command, counts in words.items():
        say(f"bare engine, {command} {counts[0]:,d}")
        if command == "gang":
            here.reset()
            _add_nodes_for_gang(here, size)
        player = here.play(BARE, command, here.cluster.kubeconfig(), NAMESPACE, *counts)
        found[command] = float(player.outcome(PLENTY_SECONDS))
    here.reset()
    return found


def _add_nodes_for_gang(here: Stand, size: Size) -> None:
    """One pod stands on each node, so a gang of 512 needs twelve more of them."""
    more = size.gang_pods - size.nodes
    here.cluster.add_nodes(more, gpus=NODE_GPUS, prefix="extra")


async def _gang(here: Stand, size: Size) -> float:
    """Seconds until all pods of the gang run, on an empty cluster."""
    _add_nodes_for_gang(here, size)
    with here.operator(recipe=RECIPE):
        async with onlooker(here.cluster.kubeconfig(), NAMESPACE) as seen:
            gpus = size.gang_pods * NODE_GPUS
            sent = await seen.submit("gang", resources={"gpus": gpus}, queue=OWNER)
            done = await seen.until(
                lambda: len(seen.running_pods) == size.gang_pods, "the gang", PATIENCE_SECONDS
            )
            return done - sent


async def _fill(here: Stand, size: Size) -> Filled:
    with here.operator(recipe=RECIPE):
        async with onlooker(here.cluster.kubeconfig(), NAMESPACE) as seen:
            one = {"resources": {"gpus": 1}, "queue": BORROWER}
            began = await seen.submit_all({f"one-{number}": one for number in range(size.gpus)})
            created = await seen.until(lambda: True, "", 0.0)
            placed = await seen.until(
                lambda: len(seen.running_pods) == size.gpus, "all pods", PATIENCE_SECONDS
            )
            told_at = await seen.until(
                lambda: seen.are("Running") == size.gpus, "all jobs", PATIENCE_SECONDS
            )
            verdict, reason = await _verdict(seen, size)
            decided, recorded, reclaimed = await _reclaim(seen, size)
    return Filled(
        created=created - began,
        placed=placed - began,
        told=told_at - began,
        verdict=verdict,
        reason=reason,
        decided=decided,
        recorded=recorded,
        reclaimed=reclaimed,
    )


async def _verdict(seen: Onlooker, size: Size) -> tuple[float, str]:
    """Seconds until a gang that cannot fit says so, and what it says."""
    sent = await seen.submit("big", resources={"gpus": size.verdict_gpus}, queue=BORROWER)
    done = await seen.until(
        lambda: "big" in seen.jobs and seen.jobs["big"].reason != "", "a verdict", PATIENCE_SECONDS
    )
    status = seen.jobs["big"].status
    said = f"{status['reason']}: {status['message']}"
    await seen.delete("big")
    await seen.until(lambda: "big" not in seen.jobs, "its end", PATIENCE_SECONDS)
    return done - sent, said


async def _reclaim(seen: Onlooker, size: Size) -> tuple[float, float, float]:
    """Seconds until the first victim is on record, until all are, and until the job runs.

    One round decides on all victims before the first is recorded, so the first marks the decision.
    """
    sent = await seen.submit("claim", resources={"gpus": size.reclaim_gpus}, queue=OWNER)
    left = size.gpus - size.reclaim_gpus
    seconds = []
    for staying in (size.gpus - 1, left):
        done = await seen.until(
            lambda staying=staying: seen.are("Running") <= staying,  # type: ignore[misc]
            "victims",
            PATIENCE_SECONDS,
        )
        seconds.append(done - sent)
    done = await seen.until(
        lambda: seen.runs("claim") == size.reclaim_gpus // NODE_GPUS, "the claim", PATIENCE_SECONDS
    )
    return seconds[0], seconds[1], done - sent


def _gang_rows(size: Size, gang: float, bare: dict[str, float], *, timed: bool) -> Iterator[Row]:
    name = f"b: gang of {size.gang_pods:,d} pods running"
    yield _timed_row("gang", name, gang, timed=timed)
    yield _ratio_row(name, gang, bare["gang"])


def _fill_rows(size: Size, filled: Filled, bare: dict[str, float], *, timed: bool) -> Iterator[Row]:
    name = f"b: {size.gpus:,d} jobs of one GPU placed"
    yield _timed_row("fill", name, filled.placed, timed=timed)
    yield _ratio_row(name, filled.placed, bare["fill"])
    yield told("b: … until the last was created", filled.created, "s")
    yield told("b: … until all were on record as running", filled.told, "s")
    name = f"b: verdict on {size.verdict_gpus} GPUs in a full cluster"
    yield _timed_row("verdict", name, filled.verdict, timed=timed)
    yield told(f"b: … it reads: {filled.reason}", None, "")
    name = f"b: reclaim of {size.reclaim_gpus:,d} GPUs decided"
    yield _timed_row("reclaim", name, filled.decided, timed=timed)
    yield told("b: … all victims on record", filled.recorded, "s")
    yield _ratio_row("b: … all victims on record", filled.recorded, bare["stop"])
    yield told("b: … the claimant runs", filled.reclaimed, "s")


def _timed_row(what: str, name: str, seconds: float, *, timed: bool) -> Row:
    if not timed:
        return told(name, seconds, "s")
    peer, its = "KAI, on its own machines", KAI_SECONDS[what]
    return aims_at(name, seconds, "s", AIM_SECONDS[what], peer=peer, peer_value=its)


def _ratio_row(name: str, seconds: float, bare: float) -> Row:
    return aims_at(
        f"{name} / bare engine's", seconds / bare, "×", BARE_AIM, peer="bare, s", peer_value=bare
    )
