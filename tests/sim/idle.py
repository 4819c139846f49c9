"""Idle GPUs: after a round nobody waits, or stays narrow, beside GPUs that it could have.

Each is asked in the dullest way, from the seats that are there. What a recipe keeps back on purpose
(strict order, a reservation, patience for a better place, network packing) is left out.
"""

from typing import TYPE_CHECKING

import numpy as np

from tests.sim.company import companions_of, first_staying
from tests.sim.moving import kept_by_node
from tests.sim.promise import PromiseBroken
from weft.brain.state.brain_state import BrainState
from weft.brain.state.waits import REASONS
from weft.model.cluster import Node
from weft.model.decision import Decision
from weft.model.ids import JobId, NodeId, QueueId
from weft.model.reason import ReasonCode
from weft.model.request import JobRequest
from weft.model.state import State
from weft.policy.recipe import Passing, Recipe
from weft.policy.size.even import Even
from weft.policy.size.maxmin import MaxMin
from weft.policy.size.requested import as_requested
from weft.policy.tenancy.quota import NO_LIMIT

if TYPE_CHECKING:
    from tests.sim.random_world import RandomWorld

SHORT = frozenset(
    {
        ReasonCode.CAPACITY_BUSY,
        ReasonCode.CAPACITY_HOST,
        ReasonCode.CONSTRAINT_TYPE,
        ReasonCode.FRAGMENTED,
        ReasonCode.HEALTH_LOST,
        ReasonCode.PRIORITY_BEHIND,
        ReasonCode.QUOTA_FIRM,
        ReasonCode.QUOTA_LIMIT,
    }
)
"""Reasons that say: there is not enough of something."""

LONGER_THAN_A_HOLD = 200.0
"""Answers that got lost are asked for again within this time."""


def nobody_waits_beside_room(world: "RandomWorld") -> None:
    """Whoever is told that something is short could not be seated on what is free (I14)."""
    brain, state = world.brain, world.brain.state
    if _keeps_back(brain.recipe) or brain.decision is None or brain.decision.reservation:
        return
    free = _free(world)
    for job, slot in state.slot_of.items():
        if state.state_of(slot) is not State.QUEUED or state.jobs.not_before[slot] > world.now:
            continue
        if slot in state.failures.avoiding:
            continue  # it may keep off what is free
        reason = REASONS[int(state.jobs.reason[slot]) - 1]
        spec = state.spec(slot)
        width = spec.width.min_gpus if brain.recipe.resizing else spec.width.asked_gpus
        if reason in SHORT and _quota_room(state, slot) >= width and fits(spec, width, free):
            raise PromiseBroken("I14", f"{job} is told {reason}, and {width} GPUs are free for it")


class Narrow:
    """Who has room to grow beside it, since when: under recipes that share all there is.

    What is idle may be meant for somebody else who holds still for a while after its last change,
    so only a room that stays is a promise broken (I14). While a reservation gathers GPUs for a
    gang, nobody has room.
    """

    def __init__(self) -> None:
        self._since: dict[JobId, float] = {}

    def look(self, world: "RandomWorld") -> None:
        recipe = world.brain.recipe
        resizing = recipe.resizing
        if resizing is None or resizing.packing.packs or resizing.worth:
            return
        if not isinstance(recipe.size, Even | MaxMin) or resizing.compact:
            return
        kept_back = world.brain.decision is None or world.brain.decision.reservation
        narrow = [] if kept_back else _narrow(world, resizing.grain_gpus)
        self._since = {job: self._since.get(job, world.now) for job in narrow}
        longest = 3.0 * (resizing.hold_seconds + LONGER_THAN_A_HOLD)
        for job, since in self._since.items():
            if world.now - since > longest:
                raise PromiseBroken("I14", f"{job} could have grown for {world.now - since:.0f} s")


def _narrow(world: "RandomWorld", grain: int) -> list[JobId]:
    """Jobs that can be resized live, below their most, with free GPUs on a node of theirs.

    One that could only grow to another node may be meant to have them and gain nothing there: where
    there is such a job, nobody else of its domain counts.
    """
    state, free = world.brain.state, _free(world)
    jobs = state.jobs
    growing = [
        slot
        for slot in state.running_slots().tolist()
        if jobs.live[slot] and jobs.width[slot] + grain <= jobs.max_gpus[slot]
    ]
    beside = {slot for slot in growing if _beside(state, slot, free) >= grain}
    claimed = {_domain(world, slot) for slot in growing if slot not in beside}
    return [
        state.spec(slot).id
        for slot in sorted(beside)
        if _domain(world, slot) not in claimed and _quota_room(state, slot) >= grain
    ]


def _beside(state: BrainState, slot: int, free: dict[NodeId, "Room"]) -> int:
    """The most GPUs that the job could have more on one of its nodes."""
    spec, nodes = state.spec(slot), state.seating.placement(slot).nodes
    return max((_offered(spec, *free[node]) for node in nodes if node in free), default=0)


def _domain(world: "RandomWorld", slot: int) -> tuple[int, int]:
    """The network and the GPU type that the job runs on."""
    state = world.brain.state
    row = state.node_row[state.seating.placement(slot).nodes[0]]
    return int(state.nodes.pool[row]), int(state.nodes.gpu_type[row])


def guarantees_are_served(world: "RandomWorld") -> None:
    """Whoever needs one GPU within its guarantee does not wait for lent ones (I15).

    What the last round itself has lent is asked back by the next one, and what its own evictions
    have freed of a quota is there for the next one too.
    """
    brain, state = world.brain, world.brain.state
    if not state.tree.divided or _keeps_back(brain.recipe):
        return
    if brain.decision is None or brain.decision.reservation:
        return
    used = _used(state)
    before = _without_grants(state, brain.decision, used)
    then = _with_evicted(state, brain.decision, used)
    lent = [slot for slot in state.running_slots().tolist() if _may_go(state, slot)]
    for job, slot in state.slot_of.items():
        if not _claims_one_gpu(world, slot, used):
            continue
        for victim in lent:
            if _may_reclaim(world, slot, victim, then, before):
                raise PromiseBroken("I15", f"{job} waits for what {state.spec(victim).id} was lent")


def _may_go(state: BrainState, slot: int) -> bool:
    """With all who take turns with it, of whom none has yet to begin."""
    party = companions_of(state, slot)
    states = [state.state_of(other) for other in party]
    preemptible = all(state.jobs.preemptible[other] for other in party)
    return preemptible and all(one in (State.RUNNING, State.STOPPING) for one in states)


def _claims_one_gpu(world: "RandomWorld", slot: int, used: dict[QueueId, int]) -> bool:
    state = world.brain.state
    spec, tree = state.spec(slot), state.tree
    if state.state_of(slot) is not State.QUEUED or state.jobs.not_before[slot] > world.now:
        return False
    if slot in state.failures.avoiding:
        return False
    width = spec.width.min_gpus if world.brain.recipe.resizing else spec.width.asked_gpus
    if width != 1 or spec.cpus_per_gpu or spec.memory_gib_per_gpu or spec.queue not in tree:
        return False
    if REASONS[int(state.jobs.reason[slot]) - 1] not in SHORT:
        return False
    return all(used[q.id] + 1 <= tree.guaranteed(q.id) for q in tree.path(spec.queue))


def _may_reclaim(
    world: "RandomWorld",
    slot: int,
    victim: int,
    used: dict[QueueId, int],
    before: dict[QueueId, int],
) -> bool:
    """Whether the victim's end would let the job start, and its queues hold more than theirs.

    Both need queues of their own: what a queue holds itself is lent neither by its children nor to
    them.
    """
    state, spec, other = world.brain.state, *map(world.brain.state.spec, (slot, victim))
    tree = state.tree
    if other.queue not in tree:
        return False
    mine, above = ({q.id for q in tree.path(one.queue)} for one in (spec, other))
    theirs = above - mine
    if mine <= above or not theirs or any(before[q] <= tree.guaranteed(q) for q in theirs):
        return False
    given = {q: int(state.jobs.width[victim]) for q in above}
    if any(used[q] + 1 - given.get(q, 0) > _cap(state, q) for q in mine):
        return False
    open_nodes = {node.id: node for node in world.open_nodes()}
    seats = state.seating.placement(victim).seats
    return any(
        seat.gpus
        and seat.node in open_nodes
        and spec.type_speed(open_nodes[seat.node].gpu.type) > 0
        for seat in seats
    )


def _used(state: BrainState) -> dict[QueueId, int]:
    """GPUs by queue, its descendants' included, of all who are not leaving."""
    found = dict.fromkeys((q.id for q in state.tree.queues), 0)
    for slot in state.slot_of.values():
        underway = state.seating.resizes.get(slot)
        width = int(state.jobs.width[slot])
        if underway is not None:
            width = min(width, underway.target.width)
        spec = state.spec(slot)
        if state.state_of(slot) is State.STOPPING or spec.queue not in state.tree:
            continue
        if slot != first_staying(state, slot):
            continue  # counted with those with whom it takes turns
        for q in state.tree.path(spec.queue):
            found[q.id] += width
    return found


def _without_grants(
    state: BrainState, decision: Decision, used: dict[QueueId, int]
) -> dict[QueueId, int]:
    """GPUs by queue as they would be had the last round granted nothing."""
    before = dict(used)
    for grant in decision.grants:
        spec = state.spec(state.slot_of[grant.job])
        for q in state.tree.path(spec.queue):
            before[q.id] -= grant.assignment.width
    return before


def _with_evicted(
    state: BrainState, decision: Decision, used: dict[QueueId, int]
) -> dict[QueueId, int]:
    """GPUs by queue with those whom the last round has told to go."""
    then = dict(used)
    for preemption in decision.preemptions:
        slot = state.slot_of[preemption.job]
        for q in state.tree.path(state.spec(slot).queue):
            then[q.id] += int(state.jobs.width[slot])
    return then


def _cap(state: BrainState, queue: QueueId) -> int:
    spec = state.tree.get(queue)
    limit = NO_LIMIT if spec.limit_gpus is None else spec.limit_gpus
    return limit if spec.borrowing else min(limit, state.tree.guaranteed(queue))


def _keeps_back(recipe: Recipe) -> bool:
    """Whether somebody may have to wait although there is room."""
    reshuffles = recipe.yielding is not None and recipe.yielding.reshuffle
    return recipe.passing is not Passing.ANYBODY or is_packed(recipe) or reshuffles


def is_packed(recipe: Recipe) -> bool:
    """Whether widths and places are those that leave each network card to one job."""
    if recipe.resizing is not None:
        return recipe.resizing.packing.packs
    return recipe.size is not as_requested


Room = tuple[Node, int, float, float]


def _free(world: "RandomWorld") -> dict[NodeId, Room]:
    """GPUs, cores and memory of open nodes that nobody holds, is pledged or comes to."""
    state, seats = world.brain.state, world.brain.state.seats
    found: dict[NodeId, Room] = {}
    moving = [seat for moved in state.next_assignment.values() for seat in moved.placement.seats]
    kept = kept_by_node(world)
    for node in world.open_nodes():
        row = state.node_row[node.id]
        here = (seats.node == row) & (seats.slot >= 0)
        coming = [seat for seat in moving if seat.node == node.id]
        gpus = node.gpus - int(seats.gpus[here].sum()) - sum(seat.gpus for seat in coming)
        gpus -= kept[node.id]
        cpus = float((seats.cpus[here] + seats.fed_cpus[here]).sum())
        memory = float((seats.memory_gib[here] + seats.fed_gib[here]).sum())
        cpus += sum(seat.cpus for seat in coming)
        memory += sum(seat.memory_gib for seat in coming)
        found[node.id] = (
            node,
            gpus,
            (np.inf if node.cpus is None else node.cpus) - cpus,
            (np.inf if node.memory_gib is None else node.memory_gib) - memory,
        )
    return found


def _offered(spec: JobRequest, node: Node, gpus: int, cpus: float, memory: float) -> int:
    """The most GPUs of the node that the job could have, with the cores and memory for them."""
    for most in range(gpus, 0, -1):
        if spec.cpus_per_gpu * most <= cpus and spec.memory_gib_per_gpu * most <= memory:
            return most if spec.type_speed(node.gpu.type) > 0 else 0
    return 0


def fits(spec: JobRequest, width: int, free: dict[NodeId, Room]) -> bool:
    if not width:
        return False
    by_domain: dict[tuple[str, str], list[int]] = {}
    for room in free.values():
        domain = room[0].pool, room[0].gpu.type
        by_domain.setdefault(domain, []).append(_offered(spec, *room))
    best = (sum(sorted(offers, reverse=True)[: spec.max_nodes]) for offers in by_domain.values())
    return max(best, default=0) >= width


def _quota_room(state: BrainState, slot: int) -> int:
    """What the queue and its ancestors let a job have, all that is held or pledged counted."""
    tree, spec = state.tree, state.spec(slot)
    room = NO_LIMIT
    for step in tree.path(spec.queue):
        below = {q.id for q in tree.queues if step.id in {up.id for up in tree.path(q.id)}}
        used = sum(
            int(state.jobs.width[other])
            for other in state.slot_of.values()
            if state.spec(other).queue in below
        )
        cap = NO_LIMIT if step.limit_gpus is None else step.limit_gpus
        firm = tree.divided and not spec.preemptible
        if (tree.divided and not step.borrowing) or firm:
            cap = min(cap, tree.guaranteed(step.id))
        room = min(room, cap - used)
    return room
