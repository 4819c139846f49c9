"""A whole world from one integer: cluster, queues, jobs, recipe, costs, and a plan of faults.

`draw(seed)` decides everything that can be decided beforehand, `RandomWorld` plays it. Each seed
turns a random half of the fault kinds off (swarm testing: a fault that is always there hides
what happens without it). The brain may be thrown away at any moment and rebuilt from what the
world knows: nodes, queues, jobs that are not over, the epoch that was last recorded for each, and
what runs.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from inspect import signature
from math import inf
from random import Random
from typing import Any

from tests.sim.checks import Auditor
from tests.sim.company import sociable, taking_turns, with_company, with_memory
from tests.sim.hardships import (
    NONE,
    Hardship,
    Hardships,
    clock_set,
    flapping,
    hardships,
    moved,
    moved_retry,
    with_burst,
)
from tests.sim.limited import chooses_plans, limited, with_limits
from tests.sim.moving import keeping, keeps_seats, moves_for_gangs, moving
from tests.sim.plans import PLANNED, choosing_plans, planful, with_plans
from tests.sim.strained import strained, with_strain
from tests.sim.troubled import XID, Trouble, troubled, with_patience, with_troubles
from weft.brain.brain import Brain, Settings
from weft.brain.event import (
    Event,
    HealthRecalled,
    JobCancelled,
    JobFailed,
    JobReported,
    JobSubmitted,
    NodeAdded,
    NodeChanged,
    NodeChecked,
    NodeLost,
    Past,
    Phase,
    QueueChanged,
    WorkerLost,
)
from weft.brain.instruction import Instruction, Preempt, Start
from weft.brain.journal import Journal
from weft.failure.evidence import UNEXPLAINED, Failure, FailureClass
from weft.failure.health import Health
from weft.failure.retry import RetryState
from weft.model.cluster import Cluster, Gpu, Node
from weft.model.curve import Curve
from weft.model.errors import SpecError
from weft.model.ids import DEFAULT_QUEUE, GpuType, JobId, NodeId, PoolId, QueueId, RackId, TenantId
from weft.model.job import Job
from weft.model.loss import LossCurve
from weft.model.placement import Placement
from weft.model.queue import Queue, QueueTree
from weft.model.request import INDIFFERENT, GpuSpeed, JobRequest, Locality, Width
from weft.model.state import State
from weft.model.truth import Work
from weft.policy.recipe import Recipe, Rounds
from weft.policy.recipes import RECIPES
from weft.policy.waiting import Waiting
from weft.sim.agenda import Turn
from weft.sim.chance import Chance
from weft.sim.costs import FREE, TACC, Costs, constant
from weft.sim.faults import Faults
from weft.sim.mishaps import Mishaps
from weft.sim.run import Run
from weft.sim.troubles import Mishap
from weft.sim.world import Checks, World

LOSS = LossCurve.through(first=5.0, target=1.0, floor=0.5, steps=300.0, noise=0.02)
NOWHERE_QUEUE = QueueId("nowhere")
"""A queue that jobs may name and that does not exist, unless an edit creates it."""


UNLUCKY_SHARE, UNLUCKY_SECONDS = 0.5, 60.0
CROWDED_SHARE, LONGER, LONGEST_SECONDS = 0.35, 6.0, 6000.0
"""So many worlds have too little for all, and a bound on waits that matters."""

LATEST_NEWS_SECONDS = 1000.0
"""When all word of faults has come in."""

FOR_GOOD_SHARE = 0.35
"""Of the nodes that something may happen to for good."""


class Fault(StrEnum):
    """Kinds of trouble; a seed uses a random half of them."""

    NODE_LOST = "node lost"
    NODE_CORDONED = "node cordoned"
    NODE_SHRUNK = "node shrunk"
    NODE_GONE = "node gone for good"
    NODE_DRAINED = "node drained"
    NODE_SMALLER = "node smaller for good"
    WORKER_LOST = "worker lost"
    JOB_FAILED = "job failed"
    REPORT_DROPPED = "report dropped"
    REPORT_REPEATED = "report repeated"
    REPORT_LATE = "report late"
    INSTRUCTION_DROPPED = "instruction dropped"
    INSTRUCTION_REPEATED = "instruction repeated"
    INSTRUCTION_LATE = "instruction late"
    START_REFUSED = "start refused"
    QUOTA_EDITED = "quota edited"
    JOB_CANCELLED = "job cancelled"
    JOB_RESUBMITTED = "job resubmitted"
    BRAIN_CRASHED = "brain crashed"


FOR_GOOD = (Fault.NODE_GONE, Fault.NODE_DRAINED, Fault.NODE_SMALLER)


@dataclass(frozen=True, slots=True)
class LastTrouble:
    """What happens to a node for good; one that is drained is cordoned, and emptied later."""

    fault: Fault
    at: float
    emptied_at: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What a seed decides before anything runs."""

    seed: int
    kinds: frozenset[Fault]
    cluster: Cluster
    tree: QueueTree
    jobs: tuple[Job, ...]
    recipe: Recipe
    settings: Settings
    costs: Costs
    faults: Faults
    crashes: tuple[float, ...]
    worker_losses: tuple[tuple[float, float], ...]
    cancels: tuple[tuple[float, float], ...]
    last_troubles: dict[NodeId, LastTrouble]
    guarded: bool
    hardships: Hardships = NONE

    def brain(self) -> Brain:
        return Brain(self.recipe, tree=self.tree, settings=self.settings)

    def __str__(self) -> str:
        gpus = " ".join(str(node.gpus) for node in self.cluster.nodes)
        return (
            f"seed {self.seed}: {self.recipe.name}, {self.recipe.rounds}, "
            f"{len(self.jobs)} submissions, nodes of {gpus} GPUs, {self.costs.name} costs, "
            f"{'divided' if self.tree.divided else 'undivided'} tree of {len(self.tree.queues)}, "
            f"{', '.join(sorted(self.kinds))}"
        )


# --- drawing -----------------------------------------------------------------------------------


def draw(seed: int) -> Plan:
    """Everything that follows from the seed."""
    rng = Random(seed)
    kinds = frozenset(rng.sample(list(Fault), len(Fault) // 2))
    cluster = _cluster(rng)
    tree = _tree(rng, cluster.gpus)
    span = rng.choice((300.0, 1500.0, 4000.0))
    elastic = rng.choice((0.1, 0.1, 0.6))
    resubmit = Fault.JOB_RESUBMITTED in kinds
    hurry = Random(f"hurry {seed}")
    crowded = hurry.random() < CROWDED_SHARE
    jobs = _jobs(rng, cluster, tree, span, resubmit=resubmit, elastic=elastic)
    jobs = tuple(map(_longer, jobs)) if crowded else jobs
    if sociable(seed):
        cluster, jobs = with_memory(seed, cluster), with_company(seed, jobs)
    if planful(seed):
        jobs = with_plans(seed, jobs)
    if limited(seed):
        jobs = with_limits(seed, jobs)
    if strained(seed):
        jobs = with_strain(seed, jobs)
    jobs = with_burst(seed, jobs)
    until = span * rng.uniform(1.0, 2.5)
    last_troubles = _last_troubles(rng, kinds, cluster, until)
    planned = _planned(
        rng, kinds, cluster, tree, jobs=jobs, until=until, last_troubles=last_troubles
    )
    plan = Plan(
        seed=seed,
        kinds=kinds,
        cluster=cluster,
        tree=tree,
        jobs=jobs,
        recipe=_recipe_of(seed, rng, hurry if crowded else None),
        settings=_settings_of(seed, rng, kinds),
        costs=_costs(rng),
        faults=_faults(rng, kinds, until, _with(planned, *flapping(seed, cluster, until))),
        crashes=_moments(rng, 5, until) if Fault.BRAIN_CRASHED in kinds else (),
        worker_losses=_drawn(rng, 6, until) if Fault.WORKER_LOST in kinds else (),
        cancels=_drawn(rng, 8, until) if Fault.JOB_CANCELLED in kinds else (),
        last_troubles=last_troubles,
        guarded=rng.random() < 0.5,
        hardships=hardships(seed, cluster, until),
    )
    if not troubled(seed):
        return plan
    faults = with_troubles(seed, plan.faults, jobs, cluster)
    return replace(plan, faults=faults, settings=with_patience(seed, plan.settings))


def _with(planned: tuple[Event, ...], *more: Event) -> tuple[Event, ...]:
    return tuple(sorted((*planned, *more), key=lambda event: event.at))


def _moments(rng: Random, most: int, until: float) -> tuple[float, ...]:
    return tuple(sorted(rng.uniform(0.0, until) for _ in range(rng.randint(1, most))))


def _drawn(rng: Random, most: int, until: float) -> tuple[tuple[float, float], ...]:
    """Moments, each with a draw that says whom it hits."""
    return tuple((at, rng.random()) for at in _moments(rng, most, until))


def _cluster(rng: Random) -> Cluster:
    types = [GpuType("a100"), GpuType("v100")][: rng.choice((1, 1, 2))]
    sizes = rng.choice(((1, 2, 4), (4,), (8,), (2, 8), (0, 4, 8)))
    racks, pools = rng.randint(1, 3), rng.choice((1, 1, 1, 2))
    hosts = rng.random() < 0.3
    nodes = []
    for index in range(rng.randint(2, 12)):
        gpus = rng.choice(sizes) if index else max(sizes)
        nodes.append(
            Node(
                id=NodeId(f"n{index}"),
                gpus=gpus,
                gpu=Gpu(rng.choice(types)),
                cpus=float(rng.choice((4, 8, 4 * max(gpus, 1)))) if hosts else None,
                memory_gib=float(rng.choice((32, 16 * max(gpus, 1)))) if hosts else None,
                rack=RackId(f"r{rng.randrange(racks)}"),
                pool=PoolId(f"p{rng.randrange(pools)}"),
            )
        )
    return Cluster(tuple(nodes))


def _tree(rng: Random, gpus: int) -> QueueTree:
    """One to three levels; half of the trees state no guarantee at all."""
    divided, limited = rng.random() < 0.5, rng.random() < 0.6
    levels = rng.randint(1, 3)
    queues = [Queue(id=DEFAULT_QUEUE)]
    parents: list[QueueId | None] = [None]
    for level in range(1, levels + 1):
        names = [QueueId(f"q{level}-{index}") for index in range(rng.randint(1, 3))]
        queues += [Queue(id=name, parent=rng.choice(parents)) for name in names]
        parents = [*names]
    tree = QueueTree(tuple(queues))
    for queue in reversed(queues):
        tree = _edited(rng, tree, queue, gpus, divided=divided, limited=limited)
    return tree


def _edited(
    rng: Random, tree: QueueTree, queue: Queue, gpus: int, *, divided: bool, limited: bool
) -> QueueTree:
    """The tree with that queue's numbers drawn anew, unless they would be unlawful."""
    try:
        return tree.with_queue(_redrawn(rng, queue, gpus, divided=divided, limited=limited))
    except SpecError:
        return tree


def _redrawn(rng: Random, queue: Queue, gpus: int, *, divided: bool, limited: bool) -> Queue:
    guaranteed = rng.randint(0, max(gpus // 2, 1)) if divided and rng.random() < 0.7 else None
    limit = rng.randint(0, gpus + 1) if limited and rng.random() < 0.5 else None
    return replace(
        queue,
        guaranteed_gpus=guaranteed,
        limit_gpus=limit,
        borrowing=not divided or rng.random() < 0.75,
    )


def _jobs(
    rng: Random,
    cluster: Cluster,
    tree: QueueTree,
    span: float,
    *,
    resubmit: bool,
    elastic: float,
) -> tuple[Job, ...]:
    at, jobs = 0.0, []
    count = rng.randint(10, 60)
    for index in range(count):
        if rng.random() < 0.7:
            at += rng.expovariate(count / span)
        jobs.append(_job(rng, cluster, tree, index, at=at, elastic=elastic))
        if resubmit and rng.random() < 0.15:
            again = _job(rng, cluster, tree, rng.randrange(len(jobs)), at=at, elastic=elastic)
            later = at + rng.choice((0.0, 60.0, span / 2))
            request = replace(again.request, submit_seconds=later)
            jobs.append(replace(again, request=request))
    return tuple(jobs)


def _job(
    rng: Random, cluster: Cluster, tree: QueueTree, index: int, *, at: float, elastic: float
) -> Job:
    queue = rng.choice(tree.queues).id if rng.random() < 0.96 else NOWHERE_QUEUE
    hosts = cluster.nodes[0].cpus is not None and rng.random() < 0.6
    width = _width(rng, cluster, elastic)
    (curve, tell_curve), loss = _curve(rng, width), rng.choice((None, None, None, LOSS))
    saves = Random(f"saves {index} {at}").choice((None, True, False))
    return Job.told(
        id=JobId(f"j{index}"),
        width=width,
        work=Work(_work_seconds(rng)),
        tell_work=rng.random() < 0.8,
        submit_seconds=at,
        tenant=TenantId(f"t{rng.randrange(3)}"),
        queue=queue,
        priority=rng.choice((0, 0, 0, 0, 0, 0, 1, 2, -1)),
        cpus=float(rng.choice((1, 2, 4, 4, 99))) if not width.max_gpus else 0.0,
        cpus_per_gpu=float(rng.choice((1, 2, 4))) if hosts else 0.0,
        memory_gib_per_gpu=float(rng.choice((0, 8, 16))) if hosts else 0.0,
        gpu_types=_accepted(rng),
        locality=rng.choice((INDIFFERENT, Locality(), Locality(0.5, 0.5))),
        max_nodes=rng.choice((None, None, None, None, 1, 2)),
        checkpoint_interval_seconds=rng.choice((0.0, 20.0, 120.0, 1800.0)),
        preemptible=rng.random() < 0.85,
        max_retries=rng.choice((0, 1, 3, 3, 6)),
        curve=curve,
        tell_curve=tell_curve,
        loss=loss,
        saves_on_demand=saves,
        program=rng.choice(("", "train")),
    )


def _curve(rng: Random, width: Width) -> tuple[Curve | None, bool]:
    """None at all, or one that may be told, and whether it is; some of them dip.

    Of some jobs of one width nobody knows how fast they are either, as of all real ones.
    """
    if not width.elastic:
        return None, width.asked_gpus % 4 != 3
    if rng.random() < 0.3:
        return None, True
    loss = rng.uniform(0.0, 0.6)
    dips = rng.choice((0.0, 0.0, 0.3))
    speeds = ((gpus, gpus ** (1.0 - loss) - dips * (gpus % 2)) for gpus in range(1, 12))
    return Curve(tuple(speeds)), rng.random() < 0.5


def _width(rng: Random, cluster: Cluster, elastic: float) -> Width:
    kind = rng.random()
    if kind < 0.04:
        return Width.fixed(0)
    if kind < 0.08:
        return Width.fixed(cluster.gpus + rng.randint(0, 2))
    if kind < 0.20:
        return Width.fixed(rng.randint(1, cluster.gpus))
    if kind < 0.20 + elastic:
        low = rng.randint(1, 4)
        asked = low + rng.randint(0, 3)
        return Width(low, asked + rng.randint(0, 3), asked)
    return Width.fixed(rng.choice((1, 1, 1, 2, 2, 3, 4, 8)))


def _work_seconds(rng: Random) -> float:
    if rng.random() < 0.08:
        return 0.0
    return round(min(rng.lognormvariate(5.0, 1.3), LONGEST_SECONDS), rng.choice((0, 3)))


def _accepted(rng: Random) -> tuple[GpuSpeed, ...]:
    if rng.random() < 0.75:
        return ()
    names = rng.sample(("a100", "v100", "h999"), rng.randint(1, 2))
    return tuple(GpuSpeed(GpuType(name), rng.choice((0.5, 1.0, 2.0))) for name in names)


def _recipe(rng: Random) -> Recipe:
    names = [n for n in RECIPES if not n.startswith("muri") and n not in PLANNED]
    name = rng.choice([*names, "maxmin", "afs-l", "weave", "weave"])
    spacing = rng.choice((0.0, 1.0, 10.0, 60.0))
    knobs: dict[str, Any] = {
        "reserve": rng.random() < 0.7,
        "reserve_after": rng.choice((0.0, 300.0)),
        "min_run": rng.choice((0.0, 30.0, 300.0, 900.0)),
        "hold": rng.choice((0.0, 20.0)),
        "grain": rng.choice((1, 1, 2)),
        "worth": rng.choice((0.0, 2.0)),
        "packed": rng.random() < 0.2,
        "host": rng.random() < 0.5,
        "longest_wait": rng.choice((inf, inf, 600.0, 86_400.0)),
    }
    taken = signature(RECIPES[name]).parameters
    arguments = {knob: value for knob, value in knobs.items() if knob in taken}
    recipe = RECIPES[name](spacing=spacing, **arguments)
    if rng.random() < 0.15:
        rounds = Rounds(spacing_seconds=spacing, period_seconds=rng.choice((15.0, 60.0)))
        recipe = replace(recipe, rounds=rounds)
    return recipe


def _recipe_of(seed: int, rng: Random, hurry: Random | None) -> Recipe:
    recipe = _recipe(rng) if hurry is None else _hurried(hurry, _recipe(rng))
    recipe = taking_turns(seed, recipe) if sociable(seed) else recipe
    if not chooses_plans(seed):
        return moving(seed, recipe) if moves_for_gangs(seed) else recipe
    return replace(choosing_plans(seed), waiting=recipe.waiting)


def _hurried(rng: Random, recipe: Recipe) -> Recipe:
    """With a bound on waits that is reached within the hours that a world lasts."""
    waiting = Waiting(rng.choice((60.0, 300.0, 600.0)), rng.choice((0.1, 0.5, 2.0)))
    return replace(recipe, waiting=waiting)


def _longer(job: Job) -> Job:
    """With several times the work, so that many wait."""
    work = replace(job.truth.work, amount=min(LONGER * job.truth.work.amount, LONGEST_SECONDS))
    claim = job.request.work
    told = None if claim is None else replace(claim, amount=work.amount)
    return Job(replace(job.request, work=told), replace(job.truth, work=work))


def _settings_of(seed: int, rng: Random, kinds: frozenset[Fault]) -> Settings:
    settings = _settings(rng, kinds)
    return keeping(seed, settings) if keeps_seats(seed) else settings


def _settings(rng: Random, kinds: frozenset[Fault]) -> Settings:
    listens = Fault.REPORT_DROPPED in kinds or rng.random() < 0.3
    return Settings(
        answer_seconds=rng.choice((10.0, 40.0, 120.0)),
        silence_seconds=rng.choice((20.0, 60.0, 200.0)) if listens else None,
        backoff_seconds=rng.choice((1.0, 10.0, 60.0)),
        backoff_cap_seconds=300.0,
        refusals_before_backoff=rng.randint(1, 3),
    )


def _costs(rng: Random) -> Costs:
    start = rng.choice((FREE, constant(5.0), TACC))
    stop = rng.choice((FREE, constant(2.0), constant(30.0)))
    resize = rng.choice((FREE, constant(5.0), constant(40.0)))
    pause = rng.choice((FREE, FREE, constant(3.0)))
    return Costs("random", start=start, stop=stop, resize=resize, resize_pause=pause)


def _faults(
    rng: Random, kinds: frozenset[Fault], until: float, planned: tuple[Event, ...]
) -> Faults:
    def rate(kind: Fault, *choices: float) -> float:
        drawn = rng.choice(choices)
        return drawn if kind in kinds else 0.0

    late = bool(kinds & {Fault.REPORT_LATE, Fault.INSTRUCTION_LATE})
    return Faults(
        job_failure=rate(Fault.JOB_FAILED, 0.05, 0.3),
        refuse_start=rate(Fault.START_REFUSED, 0.1, 0.4),
        drop_report=rate(Fault.REPORT_DROPPED, 0.02, 0.2),
        repeat_report=rate(Fault.REPORT_REPEATED, 0.1, 0.5),
        drop_instruction=rate(Fault.INSTRUCTION_DROPPED, 0.02, 0.2),
        repeat_instruction=rate(Fault.INSTRUCTION_REPEATED, 0.1, 0.5),
        late_seconds=rng.choice((1.0, 30.0, 200.0)) if late else 0.0,
        lease_seconds=rng.choice((0.0, 20.0, 60.0)),
        until_seconds=until,
        planned=planned,
    )


def _planned(
    rng: Random,
    kinds: frozenset[Fault],
    cluster: Cluster,
    tree: QueueTree,
    *,
    jobs: tuple[Job, ...],
    until: float,
    last_troubles: dict[NodeId, LastTrouble],
) -> tuple[Event, ...]:
    """Events that simply happen; nodes are whole again when the faults are over, or never."""
    events: list[Event] = []
    for node in cluster.nodes:
        last = last_troubles.get(node.id)
        events += _node_troubles(rng, kinds, node, until if last is None else last.at)
        events += [] if last is None else _for_good(rng, last, node)
    if Fault.JOB_CANCELLED in kinds:
        for job in rng.sample(jobs, max(len(jobs) // 8, 1)):
            at = max(job.submit_seconds + rng.choice((-1.0, 0.0, 5.0, 61.0, 300.0, 1000.0)), 0.0)
            events += [JobCancelled(at, job.id)] * rng.choice((1, 1, 2))
    if Fault.QUOTA_EDITED in kinds:
        events += _quota_edits(rng, tree, cluster.gpus, until)
    return tuple(sorted(events, key=lambda event: event.at))


def _node_troubles(
    rng: Random, kinds: frozenset[Fault], node: Node, until: float
) -> Iterable[Event]:
    """At most one trouble at a time: lost, cordoned or shrunk, and then whole again."""
    possible = (Fault.NODE_LOST, Fault.NODE_CORDONED, Fault.NODE_SHRUNK)
    troubles = [trouble for trouble in possible if trouble in kinds]
    at = 0.0
    while troubles:
        at += rng.expovariate(2.0 / until)
        back = at + rng.choice((0.0, 5.0, 40.0, until / 5, until / 3))
        if back >= until:
            return
        trouble = rng.choice(troubles)
        if trouble is Fault.NODE_LOST:
            yield NodeLost(at, node.id)
            yield NodeAdded(back, node)
        else:
            changed = node.with_cordon(True)
            if trouble is Fault.NODE_SHRUNK:
                changed = replace(node, gpus=rng.randint(0, node.gpus))
            yield NodeChanged(at, changed)
            yield NodeChanged(back, node)
        at = back


def _last_troubles(
    rng: Random, kinds: frozenset[Fault], cluster: Cluster, until: float
) -> dict[NodeId, LastTrouble]:
    """Some of the nodes meet their end; the first one stays, so that something can run."""
    possible = [fault for fault in FOR_GOOD if fault in kinds]
    found = {}
    for node in cluster.nodes[1:] if possible else ():
        if rng.random() < FOR_GOOD_SHARE:
            at = rng.uniform(0.0, until)
            emptied_at = min(at + rng.choice((0.0, 5.0, 60.0)), until)
            found[node.id] = LastTrouble(rng.choice(possible), at, emptied_at)
    return found


def _for_good(rng: Random, last: LastTrouble, node: Node) -> Iterable[Event]:
    if last.fault is Fault.NODE_GONE:
        yield NodeLost(last.at, node.id)
    elif last.fault is Fault.NODE_DRAINED:
        yield NodeChanged(last.at, node.with_cordon(True))
    else:
        yield NodeChanged(last.at, replace(node, gpus=rng.randint(0, node.gpus)))


def _quota_edits(rng: Random, tree: QueueTree, gpus: int, until: float) -> Iterable[Event]:
    divided = tree.divided or rng.random() < 0.2
    for at in _moments(rng, 8, until):
        queue = rng.choice(tree.queues)
        if rng.random() < 0.1:
            queue = Queue(id=NOWHERE_QUEUE)
        edited = _edited(rng, tree, queue, gpus, divided=divided, limited=True)
        if edited is not tree:
            tree = edited
            yield QueueChanged(at, tree.get(queue.id))


# --- playing -----------------------------------------------------------------------------------


class RandomWorld(World):
    """The simulated world, with a brain that can crash and an auditor that looks at every step."""

    def __init__(self, plan: Plan, *, journal: Journal | None = None) -> None:
        super().__init__(
            plan.cluster,
            plan.jobs,
            plan.brain(),
            costs=plan.costs,
            faults=plan.faults,
            seed=plan.seed,
            journal=journal,
            checks=Checks.FULL,
        )
        self.plan = plan
        self.tree = plan.tree
        self.counts: Counter[Fault] = Counter()
        self.auditor = Auditor(self)
        self.epochs: dict[JobId, int] = {}
        self.cancelled: set[JobId] = set()
        self.over: dict[JobId, State] = {}
        self.crashes = 0
        self.heard: Event | None = None
        self._mishaps = _CountedMishaps(plan, self._chance, self.counts)
        self._finished: set[JobId] = set()
        self._submitted = 0
        self.health: Health | None = None
        self.retries: dict[JobId, RetryState] = {}
        if troubled(plan.seed):
            for later in (0.0, LATEST_NEWS_SECONDS):
                self._at(plan.faults.until_seconds + later, Turn.WORLD, self._repair, None)
        for at in (*plan.crashes, *plan.hardships.restarts):
            self._at(at, Turn.WORLD, self._crash, None)
        for at, draw_ in plan.worker_losses:
            self._at(at, Turn.WORLD, self._lose_worker, draw_)
        for at, draw_ in plan.hardships.stops:
            self._at(at, Turn.WORLD, self._stop_processes, draw_)
        for at, draw_ in plan.cancels:
            self._at(at, Turn.WORLD, self._cancel_somebody, draw_)
        for node, last in plan.last_troubles.items():
            if last.fault is Fault.NODE_DRAINED:
                self._at(last.emptied_at, Turn.WORLD, self._empty_node, node)

    def step(self) -> None:
        super().step()
        self.auditor.look()

    def request(self, job: JobId) -> JobRequest:
        return self._specs[job].request

    @property
    def specs(self) -> dict[JobId, Job]:
        """Every job that was submitted, as first submitted."""
        return self._specs

    @property
    def submits(self) -> bool:
        """Whether jobs are still to come."""
        return self._submitted < len(self._jobs)

    def running_ids(self) -> dict[JobId, Run]:
        return self._runs

    def run_of(self, job: JobId) -> Run | None:
        return self._runs.get(job)

    def saved(self, job: JobId) -> float:
        return self._past.kept(job)

    def finished(self, job: JobId) -> bool:
        return job in self._finished

    @property
    def nodes(self) -> dict[NodeId, Node]:
        return {node.id: node for node in self._ground.nodes.specs}

    def open_nodes(self) -> list[Node]:
        """Those that are there and take seats."""
        aside = {one.node for one in self.brain.state.failures.health.aside}
        return [
            n
            for n in self.nodes.values()
            if self.is_present(n.id) and not n.cordoned and n.id not in aside
        ]

    def node(self, name: NodeId) -> Node:
        return self._ground.nodes.specs[self._ground.nodes.row[name]]

    def is_present(self, node: NodeId) -> bool:
        return bool(self._ground.nodes.columns.present[self._ground.nodes.row[node]])

    # --- what happens --------------------------------------------------------------------------

    def _deliver(self, event: Event) -> None:
        if isinstance(event, JobSubmitted) and self.crashes and event.job.id in self.over:
            return  # a store still knows what a new brain never heard of: the name is taken
        if isinstance(event, JobCancelled) and event.job in self._specs:
            self.cancelled.add(event.job)
        if isinstance(event, QueueChanged):
            self.tree = self.tree.with_queue(event.queue)
        self.auditor.before(event)
        self.heard = event
        super()._deliver(event)
        for job, closed in self.brain.state.closed.items():
            self.over.setdefault(job, closed.state)
        self.auditor.heard(event, self.brain.outbox.instructions)
        self._write_down()

    def _write_down(self) -> None:
        """What a new brain is to know of failures."""
        state = self.brain.state
        self.health = state.failures.health
        for slot, retry in state.failures.retries.items():
            self.retries[state.spec(slot).id] = retry

    def _repair(self, _: None) -> None:
        """People have seen to all nodes that were set aside."""
        for one in self.brain.state.failures.health.aside:
            self._deliver(NodeChecked(self.now, one.node, passed=True, repaired=True))

    def _submit(self, index: int) -> None:
        self._submitted = index + 1
        job = self._jobs[index].id
        if job in self._specs:
            self.counts[Fault.JOB_RESUBMITTED] += 1
        elif job.startswith("burst"):
            self.auditor.seen[Hardship.BURST] += 1
        super()._submit(index)

    def _planned(self, event: Event) -> None:
        if isinstance(event, NodeLost) and Hardship.FLAPPING in self.plan.hardships.kinds:
            self.auditor.seen[Hardship.FLAPPING] += event.node == self.plan.cluster.nodes[0].id
        if (last := self._last_trouble(event)) is not None:
            self.counts[last.fault] += 1
        elif isinstance(event, NodeChanged) and not event.node.cordoned:
            if event.node.gpus < self.nodes[event.node.id].gpus:
                self.counts[Fault.NODE_SHRUNK] += 1
        elif type(event) in _KIND_OF_EVENT:
            self.counts[_KIND_OF_EVENT[type(event)]] += 1
        super()._planned(event)

    def _last_trouble(self, event: Event) -> LastTrouble | None:
        if not isinstance(event, NodeLost | NodeChanged):
            return None
        node = event.node if isinstance(event, NodeLost) else event.node.id
        last = self.plan.last_troubles.get(node)
        return last if last is not None and last.at == event.at else None

    def _send(self, instruction: Instruction) -> None:
        if isinstance(instruction, Start):
            self.epochs[instruction.job] = instruction.epoch
        elif isinstance(instruction, Preempt) and instruction.beneficiary == instruction.job:
            self._spoil_move(instruction)
        super()._send(instruction)

    def _spoil_move(self, move: Preempt) -> None:
        """Half of those who stop in order to move find their next node cordoned for a while."""
        unlucky = self._chance.uniform("unlucky", move.job, move.epoch) < UNLUCKY_SHARE
        if Fault.NODE_CORDONED not in self.plan.kinds or not unlucky:
            return
        state = self.brain.state
        target = state.next_assignment[state.slot_of[move.job]].placement.nodes[0]
        if self.now < self.faults.until_seconds - UNLUCKY_SECONDS:
            self._at(self.now, Turn.WORLD, self._cordon, (target, True))
            self._at(self.now + UNLUCKY_SECONDS, Turn.WORLD, self._cordon, (target, False))

    def _cordon(self, what: tuple[NodeId, bool]) -> None:
        name, cordoned = what
        if self.is_present(name):
            self._planned(NodeChanged(self.now, self.node(name).with_cordon(cordoned)))

    def _tell(self, event: Event) -> None:
        if isinstance(event, JobFailed) and event.diagnosis is None:
            self.counts[Fault.JOB_FAILED] += 1
        elif isinstance(event, JobFailed):
            self._count_trouble(event)
        later = self._cut_off_until(event)
        if later is None:
            super()._tell(event)
        else:
            self.auditor.seen[Hardship.CUT_OFF] += 1
            self._at(later, Turn.MESSAGE, self._arrive, event)

    def _cut_off_until(self, event: Event) -> float | None:
        """When word of a job gets through, if one of its nodes is cut off now."""
        state, job = self.brain.state, getattr(event, "job", None)
        slot = state.slot_of.get(JobId(job)) if isinstance(job, str) else None
        held = None if slot is None else state.seating.assignments[slot]
        nodes = () if held is None else held.placement.nodes
        ends = (
            one.end
            for one in self.plan.hardships.cut_off
            if one.begin <= self.now < one.end and one.node in nodes
        )
        return max(ends, default=None)

    def _count_trouble(self, event: JobFailed) -> None:
        found = event.diagnosis
        assert found is not None
        bad = {bad.node for bad in self.faults.troubles.bad_nodes}
        kind = Trouble.BAD_NODE if found.node in bad else Trouble.ILL
        self.auditor.seen[Trouble.OUTAGE if found.service else kind] += 1

    def _unfit(self, run: Run, target: Placement) -> str:
        why = super()._unfit(run, target)
        if why.endswith("is full") and not self.plan.guarded:
            return why if self.auditor.excuses_seats(run.job.id, target) else ""
        return why

    def _refusal(self, start: Start, present: Run | None) -> str:
        """The world's own guard; half of the worlds have none, and the brain's must do."""
        why = super()._refusal(start, present)
        if why == "refused by chance":
            self.counts[Fault.START_REFUSED] += 1
        if why.endswith(("still runs", "is full")) and not self.plan.guarded:
            return why if self.auditor.excuses(start) else ""
        return why

    def _begin(self, start: Start) -> None:
        self.auditor.begins(start)
        super()._begin(start)

    def _finish(self, what: tuple[Run, int]) -> None:
        if what[0].version == what[1]:
            self._finished.add(what[0].job.id)
        super()._finish(what)

    def _break(self, run: Run) -> None:
        self.auditor.breaks(run)
        super()._break(run)

    def _leave(self, run: Run) -> None:
        self.auditor.leaves(run)
        super()._leave(run)

    def _lose_worker(self, draw_: float) -> None:
        """One process of one run dies; the others wait for it."""
        runs = [run for run in self._runs.values() if run.phase is not Phase.STOPPING]
        runs = [run for run in runs if not run.broken]
        if not runs:
            return
        run = runs[int(draw_ * len(runs))]
        self.counts[Fault.WORKER_LOST] += 1
        self._break(run)
        failure = Failure(FailureClass.SERVICE) if run.epoch % 2 else UNEXPLAINED
        node = run.placement.nodes[0]
        found = None
        if troubled(self.plan.seed) and draw_ < 0.5:
            found = self.faults.troubles.found(Mishap(self.now, XID, node), run)
        self._deliver(WorkerLost(self.now, run.job.id, run.epoch, node, failure, found))

    def _stop_processes(self, draw_: float) -> None:
        """All processes of a run stand still for a while, and go on as if nothing had been."""
        runs = [run for run in self._runs.values() if run.phase is Phase.RUNNING]
        runs = [run for run in runs if not run.broken]
        if runs:
            self.auditor.seen[Hardship.STOPPED] += 1
            run = runs[int(draw_ * len(runs))]
            self._changes.pause(run, 1.0 + 119.0 * draw_)

    def _empty_node(self, node: NodeId) -> None:
        """Whoever still sits there is evicted: it trains on with what is left, or not at all."""
        there = [run for run in self.running() if node in run.placement.nodes and not run.broken]
        for run in there:
            if run.phase is not Phase.STOPPING:
                self._lose_seats(run, node)
            if run.broken:
                self._deliver(WorkerLost(self.now, run.job.id, run.epoch, node))

    def _cancel_somebody(self, draw_: float) -> None:
        """A job in the rarest state that there is: cancels must be met in every one.

        Some wait for one that is being stopped, a state that few are met in.
        """
        state = self.brain.state
        states = Counter(state.state_of(slot) for slot in state.slot_of.values())
        if draw_ > 0.5 and not states[State.STOPPING] and self.now < self.faults.until_seconds:
            self._at(self.now + 1.0, Turn.WORLD, self._cancel_somebody, draw_)
        elif states:
            rarest = min(states, key=lambda one: (states[one], one))
            jobs = [job for job, slot in state.slot_of.items() if state.state_of(slot) is rarest]
            self._planned(JobCancelled(self.now, jobs[int(draw_ * len(jobs))]))

    # --- a crash of the brain ------------------------------------------------------------------

    def _crash(self, _: None) -> None:
        """Throw the brain away; what it had said and nobody had acted on yet is void."""
        self.counts[Fault.BRAIN_CRASHED] += 1
        self.crashes += 1
        self._set_clock(clock_set(self.plan.seed, self.crashes))
        self._agenda.strike(self._act)
        self.brain = Brain(self.plan.recipe, settings=self.plan.settings)
        self.auditor.forget_brain()
        for event in self._account():
            self._deliver(event)
        self.auditor.rebuilt()

    def _set_clock(self, seconds: float) -> None:
        """By the clock of the next brain, what is on record was so much later."""
        if not seconds:
            return
        self.auditor.seen[Hardship.CLOCK] += 1
        if self.health is not None:
            self.health = moved(self.health, seconds)
        self.retries = {job: moved_retry(one, seconds) for job, one in self.retries.items()}
        self.auditor.failures.clock_set(self.now, seconds)

    def _account(self) -> list[Event]:
        """What the world says when asked for everything."""
        now = self.now
        events: list[Event] = [NodeAdded(now, node) for node in self._ground.nodes.specs]
        events += [NodeLost(now, n) for n in self._ground.nodes.ids if not self.is_present(n)]
        events += [QueueChanged(now, queue) for queue in self.tree.queues]
        if self.health is not None:
            events.append(HealthRecalled(now, Health.read(self.health.told())))
        for job in self._specs.values():
            if not self._is_over(job.id):
                events += [JobSubmitted(now, job.request), self._look_at(job.id)]
        for run in self._runs.values():
            if run.broken and run.phase is not Phase.STOPPING:
                events.append(WorkerLost(now, run.job.id, run.epoch, run.placement.nodes[0]))
        events += [JobCancelled(now, job) for job in self._specs if job in self.cancelled]
        return events

    def _is_over(self, job: JobId) -> bool:
        if self.finished(job) or (job in self.cancelled and job not in self._runs):
            self.over.setdefault(job, State.SUCCEEDED if self.finished(job) else State.CANCELLED)
        return job in self.over

    def _look_at(self, job: JobId) -> JobReported:
        run, retry = self._runs.get(job), self.retries.get(job)
        past = None if retry is None else Past(retry=RetryState.read(retry.told()))
        if run is None:
            epoch = self.epochs.get(job, 0)
            return JobReported(self.now, job, epoch, Phase.ABSENT, self.saved(job), past=past)
        return replace(run.adoptable(self.now), past=past)


class _CountedMishaps(Mishaps):
    """Counts what becomes of messages; they are late only in worlds that are to have that."""

    def __init__(self, plan: Plan, chance: Chance, counts: Counter[Fault]) -> None:
        super().__init__(plan.faults, chance)
        self._kinds = plan.kinds
        self._counts = counts

    def delays(self, *, report: bool) -> list[float]:
        delays = super().delays(report=report)
        dropped, repeated, late = _MESSAGE_FAULTS[report]
        if len(delays) != 1:
            self._counts[repeated if delays else dropped] += 1
        if late not in self._kinds:
            return [0.0] * len(delays)
        self._counts[late] += len(delays)
        return delays


_KIND_OF_EVENT: dict[type, Fault] = {
    NodeLost: Fault.NODE_LOST,
    NodeChanged: Fault.NODE_CORDONED,
    JobCancelled: Fault.JOB_CANCELLED,
    QueueChanged: Fault.QUOTA_EDITED,
}
_MESSAGE_FAULTS = {
    True: (Fault.REPORT_DROPPED, Fault.REPORT_REPEATED, Fault.REPORT_LATE),
    False: (Fault.INSTRUCTION_DROPPED, Fault.INSTRUCTION_REPEATED, Fault.INSTRUCTION_LATE),
}
