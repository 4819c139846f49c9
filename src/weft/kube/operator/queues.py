"""The tree of queues, from the objects that are there.

People edit queues one at a time, so a tree may be wrong for a while: a parent that does not exist
yet, children that are promised more than their parent has. Such a queue is left out, says so in its
own status, and is taken in as soon as it fits.
"""

from collections.abc import Mapping
from dataclasses import replace

from weft.kube.gpu_names import short_name
from weft.kube.operator.sight import QueueSight
from weft.model.errors import SpecError
from weft.model.ids import GpuType, QueueId
from weft.model.job import GpuSpeed, Job
from weft.model.queue import Queue, QueueTree


def build_tree(sights: Mapping[str, QueueSight]) -> tuple[QueueTree, dict[str, str]]:
    """The largest sound tree, parents first; and what is wrong with each queue left out."""
    faults = {name: sight.fault for name, sight in sights.items() if sight.spec is None}
    tree: QueueTree | None = None
    waiting = [to_queue(sight) for _, sight in sorted(sights.items()) if sight.spec is not None]
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
    return tree or QueueTree(), faults


def to_queue(sight: QueueSight) -> Queue:
    spec = sight.spec
    assert spec is not None
    return Queue(
        id=QueueId(sight.name),
        parent=None if spec.parent is None else QueueId(spec.parent),
        guaranteed_gpus=spec.guaranteed,
        limit_gpus=spec.limit,
        borrowing=spec.borrowing,
        weight=spec.weight,
    )


def recipe_of(sights: Mapping[str, QueueSight], default: str) -> str:
    """What the first root queue that names a recipe says; else the operator's own."""
    for _, sight in sorted(sights.items()):
        if sight.spec is not None and sight.spec.parent is None and sight.spec.recipe:
            return sight.spec.recipe
    return default


def admits(sight: QueueSight | None, namespace: str) -> bool:
    """Whether that namespace may use the queue; one without a list is open to all."""
    if sight is None or sight.spec is None or not sight.spec.namespaces:
        return True
    return namespace in sight.spec.namespaces


def as_meant(job: Job, queues: Mapping[str, QueueSight]) -> Job:
    """GPU types by their short names; a queue closed to the namespace is no queue for it."""
    if job.gpu_types:
        short = dict.fromkeys(GpuType(short_name(accepted.type)) for accepted in job.gpu_types)
        job = replace(job, gpu_types=tuple(GpuSpeed(name) for name in short))
    if admits(queues.get(job.queue), job.tenant):
        return job
    return replace(job, queue=QueueId(f"{job.queue} for {job.tenant}"))
