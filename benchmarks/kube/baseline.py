"""The work of Kueue's own scalability suite, "baseline", one to one.

Five cohorts of six queues; each queue may use 20 of its own and borrow up to 100 within its cohort.
Into each queue come 350 small, 100 medium and 50 large jobs, each class at its own interval; a job
ends so long after its admission. What Kueue counts in CPUs is counted in GPUs here.

A `share` of the work keeps queues, rates and sizes, and takes that share of each class.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from weft.kube.names import API_VERSION

COHORTS = 5
QUEUES_IN_COHORT = 6
QUOTA_GPUS = 20
BORROWING_GPUS = 100
COHORT_GPUS = QUEUES_IN_COHORT * QUOTA_GPUS
TOTAL_GPUS = COHORTS * COHORT_GPUS


@dataclass(frozen=True, slots=True)
class JobClass:
    """Jobs of one kind in one queue: so many, one every so often."""

    name: str
    count: int
    gpus: int
    run_seconds: float
    priority: int
    every_seconds: float


CLASSES = (
    JobClass("small", 350, 1, 0.2, 50, 0.1),
    JobClass("medium", 100, 5, 0.5, 100, 0.5),
    JobClass("large", 50, 20, 1.0, 200, 1.2),
)
CLASS_OF = {each.name: each for each in CLASSES}


@dataclass(frozen=True, slots=True)
class Work:
    """The baseline, or a share of it."""

    share: float = 1.0

    @property
    def jobs(self) -> int:
        return len(self.queues) * sum(self.count(each) for each in CLASSES)

    @property
    def least_seconds(self) -> float:
        """No scheduler can be faster: the work over the GPUs."""
        work = sum(self.count(each) * each.gpus * each.run_seconds for each in CLASSES)
        return len(self.queues) * work / TOTAL_GPUS

    def count(self, kind: JobClass) -> int:
        return max(round(kind.count * self.share), 1)

    @property
    def queues(self) -> list[str]:
        """Leaves of the tree; each has a namespace of the same name."""
        return [
            f"cq-{queue}-{cohort}" for cohort in self.cohorts for queue in range(QUEUES_IN_COHORT)
        ]

    @property
    def cohorts(self) -> list[str]:
        return [f"cohort-{number}" for number in range(COHORTS)]

    def streams(self) -> Iterator[tuple[str, JobClass]]:
        """Whatever comes independently of the rest: a class in a queue."""
        for queue in self.queues:
            for kind in CLASSES:
                yield queue, kind

    def queue_objects(self) -> list[dict[str, Any]]:
        """Cohorts first: together they may use what they are guaranteed, and no more."""
        tops = [
            _queue(cohort, guaranteed=COHORT_GPUS, limit=COHORT_GPUS) for cohort in self.cohorts
        ]
        limit = QUOTA_GPUS + BORROWING_GPUS
        leaves = [
            _queue(
                queue,
                parent=queue.split("-", 2)[2],
                guaranteed=QUOTA_GPUS,
                limit=limit,
                namespaces=[queue],
            )
            for queue in self.queues
        ]
        return [*tops, *leaves]


def job_object(queue: str, kind: JobClass, number: int) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainingJob",
        "metadata": {"name": f"{kind.name}-{number}", "namespace": queue},
        "spec": {
            "run": "train",
            "queue": queue,
            "priority": kind.priority,
            "resources": {"gpus": kind.gpus},
        },
    }


def class_of(name: str) -> JobClass:
    """By the name of a job."""
    return CLASS_OF[name.split("-", 1)[0]]


def kueue_config(work: Work) -> dict[str, Any]:
    """The same work, in the words of the peer's generator."""
    sets = [
        {
            "count": work.count(kind),
            "creationIntervalMs": round(kind.every_seconds * 1e3),
            "workloads": [
                {
                    "className": kind.name,
                    "runtimeMs": round(kind.run_seconds * 1e3),
                    "priority": kind.priority,
                    "request": kind.gpus,
                }
            ],
        }
        for kind in CLASSES
    ]
    queues = {
        "className": "cq",
        "count": QUEUES_IN_COHORT,
        "nominalQuota": QUOTA_GPUS,
        "borrowingLimit": BORROWING_GPUS,
        "reclaimWithinCohort": "Any",
        "withinClusterQueue": "LowerPriority",
        "workloadsSets": sets,
    }
    return {"cohorts": [{"className": "cohort", "count": COHORTS, "queuesSets": [queues]}]}


def _queue(name: str, **spec: object) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }
