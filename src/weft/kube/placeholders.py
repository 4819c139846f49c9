"""Placeholders: pods that ask an autoscaler for the nodes that a waiting job lacks.

Cluster Autoscaler and Karpenter add nodes for pods that the stock scheduler finds no room for, and
for nothing else. Workers are made only once their nodes are there. So a job that waits for GPUs is
stood for by pods of its shape that run nothing. Should a node come, one may be bound to it: it is
below every worker in priority, and the stock scheduler lets workers in where it sits.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from weft.kube.names import JOB_LABEL, PLACEHOLDER_INFIX, PLACEHOLDER_LABEL
from weft.kube.pods import (
    CONTAINER_SECURITY,
    Manifest,
    WorkerSettings,
    image_of,
    owner_of,
    pod_base,
    seat_resources,
)
from weft.model.ids import NodeId
from weft.model.placement import Seat
from weft.spec.job_file import JobSpec

NODE_GPUS: Final = 8
"""Of a node that nobody has seen yet."""
NOWHERE: Final = NodeId("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What one placeholder asks for."""

    gpus: int
    cpus: float
    memory_gib: float

    @property
    def seat(self) -> Seat:
        return Seat(NOWHERE, self.gpus, self.cpus, self.memory_gib)


def shapes_of(spec: JobSpec, node_gpus: int) -> Iterator[Shape]:
    """The job at its least width, on nodes as large as that."""
    asked, left = spec.resources, spec.resources.width.least
    if not left:
        yield Shape(gpus=0, cpus=asked.cpus or 0.0, memory_gib=spec.memory_gib)
    while left:
        gpus = min(left, node_gpus or NODE_GPUS)
        left -= gpus
        cpus = gpus * (asked.cpus_per_gpu or 0.0)
        yield Shape(gpus=gpus, cpus=cpus, memory_gib=gpus * spec.memory_gib_per_gpu)


def placeholder(
    settings: WorkerSettings,
    spec: JobSpec,
    *,
    job: tuple[str, str, str],
    number: int,
    shape: Shape,
    priority_class: str,
) -> Manifest:
    """The pod that stands for one node's worth of a job (namespace, name, uid)."""
    namespace, name, uid = job
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": placeholder_name(name, number),
            "namespace": namespace,
            "labels": {JOB_LABEL: name, PLACEHOLDER_LABEL: "true"},
            "ownerReferences": [owner_of(name, uid)],
        },
        "spec": {
            **pod_base(settings, spec),
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 0,
            "priorityClassName": priority_class,
            "containers": [
                {
                    "name": "placeholder",
                    "image": image_of(settings, spec),
                    "command": ["/bin/sh", "-c", "while :; do sleep 3600; done"],
                    "securityContext": CONTAINER_SECURITY,
                    "resources": seat_resources(
                        shape.seat,
                        settings.nodes.gpu_resources[0],
                        spec.resources.devices_per_gpu or {},
                    ),
                }
            ],
        },
    }


def placeholder_name(job: str, number: int) -> str:
    return f"{job}{PLACEHOLDER_INFIX}{number}"
