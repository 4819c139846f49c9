"""A kind: what all jobs that are alike to a placement and a quota have in common.

A round's verdict on one job holds for every other job of its kind, because what is free only
shrinks while a round hands it out. Thousands of waiting jobs are therefore a few dozen kinds,
and that, more than any array, is what makes a round cheap.
"""

from dataclasses import dataclass, field

from weft.model.ids import JobId, NodeId, QueueId
from weft.model.request import GpuSpeed, JobRequest, Locality, Width
from weft.model.suit import UNDEMANDING, Demand


@dataclass(frozen=True, slots=True)
class Kind:
    """The part of a job that decides where it can go; `avoid` are nodes that have failed it.

    One for whom seats are kept is like no other job: `keeps` is its name.
    """

    queue: QueueId
    width: Width
    cpus: float
    cpus_per_gpu: float
    memory_gib: float
    memory_gib_per_gpu: float
    gpu_types: tuple[GpuSpeed, ...]
    locality: Locality
    max_nodes: int | None
    preemptible: bool
    demand: Demand = UNDEMANDING
    avoid: frozenset[NodeId] = frozenset()
    keeps: JobId | None = None
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        """Kinds are looked up in every round: the hash is computed once."""
        parts = (self.queue, self.width, self.cpus, self.cpus_per_gpu, self.memory_gib)
        more = (self.memory_gib_per_gpu, self.gpu_types, self.locality, self.max_nodes)
        last = (self.preemptible, self.demand, self.avoid, self.keeps)
        object.__setattr__(self, "_hash", hash((parts, more, last)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def counts_host(self) -> bool:
        """Whether CPUs or memory of the node matter to it."""
        return self.cpus_per_gpu > 0 or self.memory_gib_per_gpu > 0


def kind_of(job: JobRequest) -> Kind:
    return Kind(
        job.queue,
        job.width,
        job.cpus,
        job.cpus_per_gpu,
        job.memory_gib,
        job.memory_gib_per_gpu,
        job.gpu_types,
        job.locality,
        job.max_nodes,
        job.preemptible,
        job.demand,
    )
