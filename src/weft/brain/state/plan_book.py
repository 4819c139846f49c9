"""The book of plans: what is foretold of each job under each plan, and what came of it.

Jobs that claim a model's shape have an entry; of all others the plan stays as written. Forecasts
are corrected by what jobs were measured to do, and a job that stays far off is left as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from weft.model.capability import Offers
from weft.model.claim import PlanClaim
from weft.model.cluster import Node
from weft.model.ids import JobId
from weft.model.placement import Placement
from weft.model.plan import ExecutionPlan
from weft.model.request import JobRequest, WorkUnit
from weft.perf.plans.correction import Corrections
from weft.perf.plans.fabric import GIB, Fabric
from weft.perf.plans.options import Asked, Foretold, PlanOptions, Where, options
from weft.perf.plans.watch import PlanWatch

UNWATCHED = PlanWatch()


@dataclass(frozen=True, slots=True)
class Entry:
    """One job: how often it was started anew for a plan or for others, and what that cost it.

    `offers` is what its program has told, in that epoch; plans that it was to go to and did not
    come to a step under are `unreached`, and not tried again.
    """

    watch: PlanWatch = UNWATCHED
    restarts: int = 0
    lost_seconds: float = 0.0
    offers: Offers | None = None
    epoch: int = 0
    unreached: frozenset[ExecutionPlan] = frozenset()


NEW = Entry()


@dataclass(slots=True)
class PlanBook:
    """Entries by slot, and what the cluster has learnt and paid."""

    chooses: bool = True
    """Whether the policy chooses plans; without, all jobs run as submitted."""

    corrections: Corrections = field(default_factory=Corrections)
    entries: dict[int, Entry] = field(default_factory=dict)
    served_gpu_seconds: float = 0.0
    """Of jobs that are over."""

    paid_gpu_seconds: float = 0.0
    """For restarts."""

    fabric: Fabric = field(default_factory=Fabric)
    gpus: int = 0
    _options: dict[int, PlanOptions] = field(default_factory=dict)

    def copied(self) -> "PlanBook":
        return replace(self, entries=dict(self.entries), _options=dict(self._options))

    def see_nodes(self, nodes: Sequence[Node]) -> None:
        """What is foretold follows the nodes that there are."""
        fabric, gpus = fabric_of(nodes), sum(node.gpus for node in nodes)
        if (fabric, gpus) != (self.fabric, self.gpus):
            self.fabric, self.gpus = fabric, gpus
            self._options.clear()

    def options(self, slot: int, spec: JobRequest) -> PlanOptions | None:
        """What there is to choose from; None where the plan stays as written."""
        if spec.splits is None or not spec.width.asked_gpus:
            return None
        found = self._options.get(slot)
        if found is None:
            asked = self._asked(spec, self._claim(slot, spec.splits))
            found = self._options[slot] = options(asked, self.fabric)
        return found

    def submitted(self, spec: JobRequest) -> dict[int, Foretold]:
        """The submitted plan at each width at which it runs; empty where no shape is claimed."""
        if spec.splits is None or not spec.width.asked_gpus:
            return {}
        return options(self._asked(spec, spec.splits), self.fabric).submitted()

    def fewest_gpus(self, spec: JobRequest) -> int:
        """On fewer no plan fits; 0 where none fits at all, or nothing is claimed."""
        if spec.splits is None or not spec.width.asked_gpus:
            return 0
        found = options(self._asked(spec, spec.splits), self.fabric)
        return min((one.allocation.gpus for one in found.useful), default=0)

    def _asked(self, spec: JobRequest, claim: PlanClaim) -> Asked:
        return Asked(
            claim=claim,
            plans=spec.plans,
            gpus=spec.width.asked_gpus,
            cores=spec.cpus_per_gpu,
            least_gpus=spec.width.min_gpus,
            most_gpus=min(spec.width.max_gpus, max(self.gpus, spec.width.min_gpus)),
            more_cores=spec.host is None,
        )

    def _claim(self, slot: int, claim: PlanClaim) -> PlanClaim:
        """With what the program has told, which is the last word on what it can be run as."""
        told = self.entry(slot).offers
        if told is None:
            return claim
        return replace(claim, offers=tuple(sorted(told if claim.open else told & {*claim.offers})))

    def offer(self, slot: int, epoch: int, offers: Offers) -> bool:
        """What its program tells; whether that is news."""
        own = self.entry(slot)
        if (own.offers, own.epoch) == (offers, epoch):
            return False
        self.entries[slot] = replace(own, offers=offers, epoch=epoch)
        if own.offers != offers:
            self._options.pop(slot, None)
        return True

    def can_switch(self, slot: int, epoch: int) -> bool:
        """Whether the job goes to another plan while it trains, in this incarnation."""
        own = self.entry(slot)
        return own.offers is not None and own.epoch == epoch

    def shun(self, slot: int, plan: ExecutionPlan) -> None:
        """It did not come to a step under this plan."""
        own = self.entry(slot)
        self.entries[slot] = replace(own, unreached=own.unreached | {plan})

    def pay_for_switch(self, slot: int, gpus: int, seconds: float) -> None:
        """Training stood still for so long, and nothing was started anew."""
        own = self.entry(slot)
        self.entries[slot] = replace(own, lost_seconds=own.lost_seconds + seconds)
        self.paid_gpu_seconds += gpus * seconds

    def speed(
        self, slot: int, spec: JobRequest, plan: ExecutionPlan, placement: Placement
    ) -> float:
        """Work per second there, as it is believed now; where it sits is part of the forecast."""
        found = self.options(slot, spec)
        assert found is not None, f"{spec.id} claims no shape"
        step = found.step(plan, where(placement), cores_of(placement))
        return units_per_second(spec, found, self.corrected(spec.id, step).seconds)

    def entry(self, slot: int) -> Entry:
        return self.entries.get(slot, NEW)

    def pay(self, slot: int, gpus: int, seconds: float) -> None:
        """A restart of so many GPUs, which takes so long."""
        own = self.entry(slot)
        self.entries[slot] = replace(
            own, restarts=own.restarts + 1, lost_seconds=own.lost_seconds + seconds
        )
        self.paid_gpu_seconds += gpus * seconds

    def recall(self, slot: int, restarts: int, gpus: int, seconds: float) -> None:
        """What was paid before this brain began, as far as counts tell: no job gets more for it."""
        for _ in range(restarts):
            self.pay(slot, gpus, seconds)

    def recall_ended(self, served_gpu_seconds: float, paid_gpu_seconds: float) -> None:
        """The same of jobs that were over by then; one that has seen some end knows better."""
        if not self.served_gpu_seconds:
            self.served_gpu_seconds = served_gpu_seconds
            self.paid_gpu_seconds += paid_gpu_seconds

    def close(self, slot: int, job: JobId, served_gpu_seconds: float) -> None:
        self.served_gpu_seconds += served_gpu_seconds
        self._options.pop(slot, None)
        if self.entries.pop(slot, None) is not None:
            self.corrections = self.corrections.without(job)

    def learn(
        self, slot: int, spec: JobRequest, foretold: Foretold, measured_seconds: float, steps: int
    ) -> bool:
        """After so many steps; whether that is news for a choice."""
        before = self.corrections
        believed = foretold.seconds * before.of(spec.id, foretold.plan).factor
        self.corrections = before.learnt(
            spec.id,
            foretold.plan,
            foretold_seconds=foretold.seconds,
            measured_seconds=measured_seconds,
            steps=steps,
        )
        if self.corrections is before:
            return False
        own = self.entry(slot)
        watch = own.watch.look(foretold_seconds=believed, measured_seconds=measured_seconds)
        self.entries[slot] = replace(own, watch=watch)
        return watch.held != own.watch.held

    def corrected(self, job: JobId, foretold: Foretold) -> Foretold:
        """As it is believed after what was measured; a job that was measured is in less doubt."""
        by = self.corrections.of(job, foretold.plan)
        return replace(
            foretold,
            seconds=foretold.seconds * by.factor,
            slow_seconds=foretold.slow_seconds * by.factor,
        )


def fabric_of(nodes: Sequence[Node]) -> Fabric:
    """The nodes as plans see them: one like the largest, with links as they usually are.

    A plan has to fit wherever the job may be put, so memory is that of the smallest GPU.
    """
    there = [node for node in nodes if node.gpus]
    if not there:
        return Fabric()
    largest = max(there, key=lambda node: node.gpus)
    known = [node.gpu.memory_gib for node in there if node.gpu.memory_gib]
    usual = Fabric()
    return Fabric(
        gpus_per_node=largest.gpus,
        cards_per_node=max(1, largest.gpus // 2),
        gpu_memory_bytes=min(known) * GIB if known else usual.gpu_memory_bytes,
        cores_per_node=int(largest.cpus or usual.cores_per_node),
        host_memory_bytes=(
            largest.memory_gib * GIB if largest.memory_gib else usual.host_memory_bytes
        ),
    )


def where(placement: Placement) -> Where:
    """GPUs by node, most first: ranks fill nodes in that order."""
    return tuple(sorted(placement.gpus_by_node.values(), reverse=True))


def cores_of(placement: Placement) -> float:
    """Beside each GPU."""
    cpus = sum(seat.cpus for seat in placement.seats)
    return cpus / placement.width if placement.width else 0.0


def units_per_second(spec: JobRequest, found: PlanOptions, seconds: float) -> float:
    """Work per second at so many seconds a step, in the unit that the job counts."""
    if spec.unit is WorkUnit.SAMPLES:
        return found.asked.claim.batch / seconds
    if spec.unit is WorkUnit.STEPS:
        return 1.0 / seconds
    return found.as_asked().seconds / seconds


def step_seconds(spec: JobRequest, found: PlanOptions, speed: float) -> float:
    """The same the other way round."""
    return units_per_second(spec, found, 1.0) / speed
