"""The bound on waits: whoever has waited too long and could be served is served soon.

Too long is what `policy.waiting` says, computed here once more in the dullest way. Served means
seats, pledged or held. What may rightly keep a job waiting is left out: a quota or nodes that would
not hold it beside those who need not yield to it (yet), jobs of a higher priority that wait, a
reservation for somebody else, network packing. Whenever nodes or queues change, the clock of all
begins anew.
"""

from itertools import islice
from math import inf, isnan
from statistics import median
from typing import TYPE_CHECKING

from tests.sim.idle import Room, fits, is_packed
from tests.sim.moving import kept_by_node
from tests.sim.promise import PromiseBroken
from weft.brain.state.brain_state import BrainState
from weft.brain.state.waits import REASONS
from weft.model.ids import JobId, NodeId, QueueId
from weft.model.reason import ReasonCode
from weft.model.request import JobRequest
from weft.model.state import State
from weft.policy.tenancy.quota import NO_LIMIT

if TYPE_CHECKING:
    from tests.sim.random_world import RandomWorld

NEVER = frozenset(
    {ReasonCode.CONSTRAINT_NEVER, ReasonCode.QUOTA_NEVER, ReasonCode.CONSTRAINT_QUEUE}
)
SOON_SECONDS = 300.0
"""For lost answers and slow stops; and some rounds come on top."""

MOST_LOOKED_AT = 4

UNHURRIED_SECONDS = 900.0
"""For how long a job keeps its seats under a recipe that otherwise stops nobody."""


class Overdue:
    """Since when each job has been overdue and could have been served without a break."""

    def __init__(self) -> None:
        self._since: dict[JobId, float] = {}
        self._kept_for: JobId | None = None

    def forget(self) -> None:
        """Nodes, queues or the brain are others: everybody's clock begins anew."""
        self._since.clear()

    def look(self, world: "RandomWorld") -> None:
        """After an event, be it a round or not: a round must come in time (I17)."""
        recipe, decision = world.brain.recipe, world.brain.decision
        if decision is not None and (decision.reservation or not self._still_kept(world)):
            self._kept_for = decision.reservation[0] if decision.reservation else None
        if recipe.waiting.longest_seconds > world.now or is_packed(recipe):
            return
        late = [job for job in _late(world) if self._kept_for in (None, job)]
        self._since = {job: self._since.get(job, world.now) for job in late}
        rounds = recipe.rounds
        soon = SOON_SECONDS + 5.0 * (rounds.period_seconds or rounds.spacing_seconds)
        for job, since in self._since.items():
            if world.now - since > soon:
                raise PromiseBroken(
                    "I17",
                    f"{job} is overdue and could have had seats for {world.now - since:.0f} s",
                )

    def _still_kept(self, world: "RandomWorld") -> bool:
        """A round that gave nothing away may have asked nobody: what was kept before still is."""
        state, decision = world.brain.state, world.brain.decision
        holder = None if self._kept_for is None else state.slot_of.get(self._kept_for)
        waits = holder is not None and state.state_of(holder) is State.QUEUED
        return waits and decision is not None and not (decision.grants or decision.preemptions)


def _late(world: "RandomWorld") -> list[JobId]:
    """Those who have waited too long and could be served, of the few who have waited longest.

    They are the first to be served, and everybody comes to be one of them.
    """
    state, waiting = world.brain.state, world.brain.recipe.waiting
    since = state.jobs.queued_since
    too_long = [
        slot
        for slot in state.slot_of.values()
        if state.state_of(slot) is State.QUEUED
        and world.now - float(since[slot]) > waiting.longest_seconds
    ]
    if not too_long:
        return []
    level = _fair_level(state)
    late = (
        slot
        for slot in sorted(too_long, key=lambda slot: float(since[slot]))
        if world.now - float(since[slot]) > waiting.fair_times * _fair_seconds(state, slot, level)
    )
    first = islice(late, MOST_LOOKED_AT)
    return [state.spec(slot).id for slot in first if _could_be_served(world, slot)]


def _fair_seconds(state: BrainState, slot: int, level: float) -> float:
    """How long the job would take on its fair part of the cluster."""
    jobs = state.jobs
    asked = max(int(jobs.asked_gpus[slot]), 1)
    left = max(float(jobs.work_total[slot] - jobs.work_done[slot]), 0.0)
    service = left / float(jobs.pace[slot]) * asked
    if isnan(float(jobs.work_total[slot])):
        ended = state.finished.samples.gpu_seconds.tolist()
        usual = median(ended) if ended else 0.0
        service = max(float(jobs.attained_gpu_seconds[slot]), usual)
    return service / max(min(level, asked), 1e-9)


def _fair_level(state: BrainState) -> float:
    """Max-min by pouring: all get alike, and whoever has all it asked for gets no more."""
    gpus = float(state.nodes.gpus[state.nodes.present].sum())
    wants = sorted(int(state.jobs.asked_gpus[slot]) for slot in state.slot_of.values())
    for place, want in enumerate(wants):
        level = gpus / (len(wants) - place)
        if want > level:
            return level
        gpus -= want
    return inf


def _could_be_served(world: "RandomWorld", slot: int) -> bool:
    """Whether it would fit if all who must yield to it were gone, and nothing else is in its way.

    Without GPUs it hangs on cores alone, which nobody yields.
    """
    state = world.brain.state
    spec = state.spec(slot)
    if spec.queue not in state.tree or state.jobs.not_before[slot] > world.now:
        return False
    if slot in state.failures.avoiding:
        return False
    if any(_goes_before(state, other, slot) for other in state.slot_of.values()):
        return False
    width = spec.width.min_gpus if world.brain.recipe.resizing else spec.width.asked_gpus
    firm = [other for other in state.slot_of.values() if not _yields(world, other, slot)]
    room = _room_beside(world, firm)
    return _quota_beside(state, spec, firm) >= width and fits(spec, width, room)


def _goes_before(state: BrainState, other: int, slot: int) -> bool:
    """Whether the other waits with a higher priority: it may take what comes free."""
    higher = state.spec(other).priority > state.spec(slot).priority
    hopeless = REASONS[int(state.jobs.reason[other]) - 1] in NEVER
    return higher and not hopeless and state.state_of(other) in (State.QUEUED, State.ADMITTED)


def _yields(world: "RandomWorld", other: int, slot: int) -> bool:
    """Whether the other has nothing, or runs and must give way now."""
    state = world.brain.state
    mine, theirs = state.spec(slot), state.spec(other)
    if state.state_of(other) is not State.RUNNING:
        return state.state_of(other) is State.QUEUED
    if state.tree.divided and mine.queue != theirs.queue:
        return False
    keeps = max(_least_run_seconds(world), theirs.saves_every_seconds)
    ran = world.now - float(state.jobs.started[other])
    return theirs.preemptible and theirs.priority <= mine.priority and ran >= keeps


def _room_beside(world: "RandomWorld", firm: list[int]) -> dict[NodeId, Room]:
    """What open nodes have beside these jobs, and what is kept for those who failed."""
    state, kept = world.brain.state, kept_by_node(world)
    found: dict[NodeId, Room] = {}
    for node in world.open_nodes():
        cpus = inf if node.cpus is None else node.cpus
        memory = inf if node.memory_gib is None else node.memory_gib
        found[node.id] = (node, node.gpus - kept[node.id], cpus, memory)
    for slot in firm:
        for seat in state.seating.placement(slot).seats:
            if seat.node in found:
                node, gpus, cpus, memory = found[seat.node]
                left = gpus - seat.gpus, cpus - seat.cpus, memory - seat.memory_gib
                found[seat.node] = (node, *left)
    return found


def _quota_beside(state: BrainState, spec: JobRequest, firm: list[int]) -> int:
    """What the queue and its ancestors let the job have beside these."""
    tree, room = state.tree, NO_LIMIT
    used: dict[QueueId, int] = {}
    for slot in firm:
        for step in tree.path(state.spec(slot).queue) if state.spec(slot).queue in tree else ():
            used[step.id] = used.get(step.id, 0) + int(state.jobs.width[slot])
    for step in tree.path(spec.queue):
        cap = NO_LIMIT if step.limit_gpus is None else step.limit_gpus
        if tree.divided and (not step.borrowing or not spec.preemptible):
            cap = min(cap, tree.guaranteed(step.id))
        room = min(room, cap - used.get(step.id, 0))
    return room


def _least_run_seconds(world: "RandomWorld") -> float:
    """For how long everybody keeps its seats; also under recipes that stop nobody else."""
    yielding = world.brain.recipe.yielding
    return UNHURRIED_SECONDS if yielding is None else yielding.min_run_seconds
