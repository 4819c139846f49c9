"""The tree of queues, from the objects that are there.

People edit queues one at a time, so a tree may be wrong for a while: a parent that does not exist
yet, children that are promised more than their parent has. Such a queue is left out, says so in its
own status, and is taken in as soon as it fits.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from weft.brain.state.brain_state import BrainState
from weft.kube.gpu_names import short_name
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.observation.queue import ObservedQueue
from weft.model.errors import SpecError
from weft.model.ids import GpuType, JobId, QueueId, TenantId
from weft.model.queue import Queue, QueueTree
from weft.model.request import GpuSpeed, JobRequest

CLOSED: Final = QueueTree((Queue(id=QueueId("(none)"), limit_gpus=0),))
"""No job can name its queue."""


def build_tree(queues: Mapping[str, ObservedQueue]) -> tuple[QueueTree, dict[str, str]]:
    """The largest sound tree, parents first; and what is wrong with each queue left out.

    Where nobody has made a queue there is one for all. Where somebody has, and none can be used,
    nobody starts: queues are made to keep people out.
    """
    faults = {name: queue.fault for name, queue in queues.items() if queue.spec is None}
    tree: QueueTree | None = None
    waiting = [to_queue(queue) for _, queue in sorted(queues.items()) if queue.spec is not None]
    while waiting:
        known = set() if tree is None else {queue.id for queue in tree.queues}
        ready = [queue for queue in waiting if queue.parent is None or queue.parent in known]
        if not ready:
            break
        waiting = [queue for queue in waiting if queue not in ready]
        for queue in ready:
            try:
                tree = QueueTree((queue,)) if tree is None else tree.with_queue(queue)
            except SpecError as error:
                faults[queue.id] = f"{error}: {error.hint}"
    faults |= {queue.id: f"there is no queue '{queue.parent}'" for queue in waiting}
    return tree or (CLOSED if queues else QueueTree()), faults


def to_queue(queue: ObservedQueue) -> Queue:
    spec = queue.spec
    assert spec is not None
    return Queue(
        id=QueueId(queue.name),
        parent=None if spec.parent is None else QueueId(spec.parent),
        guaranteed_gpus=spec.guaranteed,
        limit_gpus=spec.limit,
        borrowing=spec.borrowing,
        weight=spec.weight,
        max_slowdown=spec.max_slowdown,
    )


def recipe_of(queues: Mapping[str, ObservedQueue], default: str) -> str:
    """What the first root queue that names a recipe says; else the operator's own."""
    for _, queue in sorted(queues.items()):
        if queue.spec is not None and queue.spec.parent is None and queue.spec.recipe:
            return queue.spec.recipe
    return default


def admits(queue: ObservedQueue | None, namespace: str) -> bool:
    """Whether that namespace may use the queue; one without a list is open to all."""
    if queue is None or queue.spec is None or not queue.spec.namespaces:
        return True
    return namespace in queue.spec.namespaces


def as_meant(
    job: JobRequest, queues: Mapping[str, ObservedQueue], *, sharing: bool = False
) -> JobRequest:
    """GPU types by their short names; a queue closed to the namespace is no queue for it.

    Without `sharing` GPUs are given to one pod each, and nobody shares any. A job of several seats
    has several claims, which nobody joins.
    """
    if job.shareable and not (sharing and not job.width.elastic):
        job = replace(job, shareable=False)
    if job.gpu_types:
        short = dict.fromkeys(GpuType(short_name(accepted.type)) for accepted in job.gpu_types)
        job = replace(job, gpu_types=tuple(GpuSpeed(name) for name in short))
    queue = queue_for(job.queue, job.tenant, job.priority, queues)
    return job if queue == job.queue else replace(job, queue=queue)


def queue_for(
    asked: QueueId, tenant: TenantId, priority: int, queues: Mapping[str, ObservedQueue]
) -> QueueId:
    """The queue itself, or the name of none where it is closed to the namespace or the priority.

    Who may use a queue can change at any time, so this is asked again whenever a queue changes.
    """
    queue = queues.get(asked)
    if not admits(queue, tenant):
        return QueueId(f"{asked} for {tenant}")
    most = None if queue is None or queue.spec is None else queue.spec.max_priority
    if most is not None and priority > most:
        return QueueId(f"{asked} for priority {priority} (at most {most})")
    return asked


def misplaced(
    state: BrainState, jobs: Mapping[str, ObservedJob], queues: Mapping[str, ObservedQueue]
) -> bool:
    """Whether some job is in a queue that its namespace may not use, or out of one it may."""
    known = ((job, state.slot_of.get(JobId(key))) for key, job in jobs.items() if job.spec)
    return any(
        state.spec(slot).queue
        != queue_for(QueueId(job.spec.queue), TenantId(job.namespace), job.spec.priority, queues)
        for job, slot in known
        if slot is not None and job.spec is not None
    )
