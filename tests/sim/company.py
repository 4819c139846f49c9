"""Worlds in which jobs take turns: what they claim of their stages, and what is really so.

Drawn apart from everything else, so that a seed without company is the world that it always was.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from random import Random

from tests.sim.promise import PromiseBroken
from weft.brain.state.brain_state import BrainState
from weft.model.claim import StageClaim
from weft.model.cluster import Cluster, Node
from weft.model.ids import JobId, NodeId
from weft.model.job import Job
from weft.model.request import Width
from weft.model.stages import StageProfile
from weft.model.state import State
from weft.policy.recipe import Recipe
from weft.policy.share.sharing import Sharing
from weft.sim.run import Run
from weft.sim.world import World

SHARE_OF_WORLDS = 0.4
STAGES = ((0.7, 0.1, 0.2, 0.0), (0.1, 0.1, 0.7, 0.1), (0.1, 0.6, 0.2, 0.0), (0.0, 0.1, 0.3, 0.6))
GIB = 2**30


def sociable(seed: int) -> bool:
    """Whether jobs of that world take turns."""
    return Random(f"company {seed}").random() < SHARE_OF_WORLDS


def with_company(seed: int, jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    """Most of them claim stages, some of which are not so; some want nobody's company."""
    return tuple(_sociable(Random(f"company {seed} {row}"), job) for row, job in enumerate(jobs))


def with_memory(seed: int, cluster: Cluster) -> Cluster:
    """GPUs whose memory is known, or not."""
    gib = Random(f"memory {seed}").choice((None, 16.0, 32.0))
    return replace(cluster, nodes=tuple(_with_gib(node, gib) for node in cluster.nodes))


def taking_turns(seed: int, recipe: Recipe) -> Recipe:
    rng = Random(f"sharing {seed}")
    sharing = Sharing(
        cap=rng.choice((1.5, 6.0)), most_members=rng.choice((2, 4)), worth=rng.choice((0.0, 2.0))
    )
    return replace(recipe, sharing=sharing)


def _sociable(rng: Random, job: Job) -> Job:
    if rng.random() < 0.1:
        return job
    if rng.random() < 0.7:  # only who is of one width with others can take turns with them
        job = _narrow(job)
    claimed, real = _profile(rng), _profile(rng)
    request = replace(job.request, shareable=rng.random() < 0.9, stages=StageClaim(claimed))
    return Job(request, replace(job.truth, stages=claimed if rng.random() < 0.7 else real))


def _narrow(job: Job) -> Job:
    if not job.width.max_gpus:
        return job
    request = replace(job.request, width=Width.fixed(1), priority=0)
    truth = replace(job.truth, asked_gpus=1, work=replace(job.work, amount=4.0 * job.work.amount))
    claim = None if request.work is None else replace(request.work, amount=truth.work.amount)
    return Job(replace(request, work=claim), truth)


def _profile(rng: Random) -> StageProfile:
    storage, cpu, gpu, network = rng.choice(STAGES)
    seconds = rng.choice((0.1, 1.0, 3.0))
    return StageProfile(
        iteration_seconds=seconds,
        storage_seconds=seconds * storage,
        cpu_seconds=seconds * cpu,
        gpu_seconds=seconds * gpu,
        network_seconds=seconds * network,
        gpu_memory_bytes=rng.choice((None, 2 * GIB, 7 * GIB, 12 * GIB)),
    )


def _with_gib(node: Node, gib: float | None) -> Node:
    return replace(node, gpu=replace(node.gpu, memory_gib=gib))


# --- what is promised of those who take turns, in the dullest way ------------------------------


def party_of(state: BrainState, slot: int) -> str:
    """By what was said at its start, and not by the brain's own table."""
    assignment = state.seating.assignments[slot]
    said = "" if assignment is None else assignment.party
    epoch = int(state.jobs.epoch[slot]) + (not state.state_of(slot).holds_seats)
    return said or f"{state.spec(slot).id}/{epoch}"


def companions_of(state: BrainState, slot: int) -> list[int]:
    """All of its party, itself among them."""
    mine = party_of(state, slot)
    return [other for other in state.slot_of.values() if party_of(state, other) == mine]


def first_staying(state: BrainState, slot: int) -> int:
    """One of its party stands for all where GPUs are counted: one that is not leaving, if any."""
    party = companions_of(state, slot)
    staying = [other for other in party if state.state_of(other) is not State.STOPPING]
    return (staying or party)[0]


def gpus_by_node(runs: Iterable[Run]) -> Counter[NodeId]:
    """GPUs in use: of those who take turns on a node, what the widest has."""
    by_party: dict[tuple[str, NodeId], Counter[JobId]] = {}
    for run in runs:
        for seat in run.seats:
            widths = by_party.setdefault((run.party, seat.node), Counter())
            widths[run.job.id] += seat.gpus
    used = Counter[NodeId]()
    for (_, node), widths in by_party.items():
        used[node] += max(widths.values())
    return used


def sound_company(
    world: World, runs: Iterable[Run], sharing: Sharing | None, jobs: Sequence[Job]
) -> None:
    """Alike, few enough, and with memory for all; nobody who would not, and none by chance."""
    parties: dict[str, list[Run]] = {}
    for run in runs:
        parties.setdefault(run.party, []).append(run)
    for party in parties.values():
        if len(party) > 1:
            _demand_sound(world, party, sharing, jobs)


def _demand_sound(
    world: World, party: list[Run], sharing: Sharing | None, jobs: Sequence[Job]
) -> None:
    requests = [run.job.request for run in party]
    alike = {
        (run.placement.width, one.priority, one.queue)
        for run, one in zip(party, requests, strict=True)
    }
    if sharing is None or len(party) > sharing.most_members or len(alike) > 1:
        raise PromiseBroken("I14", f"{[one.id for one in requests]} take turns")
    if len({run.placement.nodes for run in party}) > 1:
        raise PromiseBroken("I14", f"{[one.id for one in requests]} take turns apart")
    if not all(one.shareable and one.stages for one in requests):
        raise PromiseBroken("I14", f"{[one.id for one in requests]}: one would rather not")
    gib = next(
        n.gpu.memory_gib
        for n in world.brain.state.node_table.specs
        if n.id == party[0].placement.nodes[0]
    )
    needs = [_memory_bytes(run.job, jobs) for run in party]
    if gib is not None and (None in needs or sum(need or 0 for need in needs) > gib * GIB):
        raise PromiseBroken("I14", f"{[one.id for one in requests]} need {needs} of {gib} GiB")


def _memory_bytes(job: Job, jobs: Sequence[Job]) -> int | None:
    """As claimed; of one that claims nothing of it, what it or another of its program measured."""
    claim, alike = job.request.stages, [job, *_of_its_program(job, jobs)]
    if claim is not None and claim.profile.gpu_memory_bytes is not None:
        return claim.profile.gpu_memory_bytes
    known = [stages.gpu_memory_bytes for one in alike if (stages := one.truth.stages)]
    return min((each for each in known if each is not None), default=None)


def _of_its_program(job: Job, jobs: Sequence[Job]) -> Iterator[Job]:
    """The same command of the same tenant at the same width, which one tells of the next."""
    mine = job.request
    for other in jobs if mine.program else ():
        its = other.request
        if (its.tenant, its.program, its.width.asked_gpus) == (
            mine.tenant,
            mine.program,
            mine.width.asked_gpus,
        ):
            yield other
