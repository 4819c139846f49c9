"""A sequence of changes to queues, namespaces and jobs, and the rule of who may run where.

Queues come, go, and change their lists, their bounds, their limits and their parents, before and
after the jobs that name them; some cannot be read. Jobs come and go, one at a time and with their
namespace. The operator begins afresh now and then, at times before it has recorded what it granted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from tests.kube.operator.stage import Raw, Stage
from weft.kube.metrics import Metrics
from weft.model.ids import JobId

CHANGES: Final = 12
QUEUES: Final = ("default", "research", "prod")
NAMESPACES: Final = ("a", "ab", "b")  # one begins like another
UNREADABLE: Final = {"guaranteed": 2, "limit": 1}
METRICS: Final = Metrics()


@dataclass
class Cluster:
    """The objects that there are, and who has been given a seat on record, and where."""

    queues: dict[str, Raw] = field(default_factory=dict)
    jobs: dict[str, Raw] = field(default_factory=dict)
    seated: dict[str, str] = field(default_factory=dict)


class Play:
    """One sequence; `granted` are seats that this term has given and not recorded."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = Cluster()
        self.granted: set[str] = set()
        self.names = self.steps = self.seats = self.refusals = 0
        self.begin()

    def begin(self) -> None:
        """A term that knows nothing but the objects."""
        self.stage = Stage("fifo", metrics=METRICS)
        self.stage.node("n1")
        self.granted = set()
        for name, spec in self.cluster.queues.items():
            self.stage.queue(name, **spec)
        for key in self.cluster.jobs:
            self.show(key)
        self.stage.term._begin()

    def show(self, key: str) -> None:
        """A job as it is on record; one that was given a seat has it, and trains."""
        node = self.cluster.seated.get(key)
        seat = {"number": 0, "node": node, "gpus": 1, "cpus": 0.0, "memoryGib": 0.0}
        decision = {"epoch": 1, "width": 1, "seats": [seat]}
        running = {"state": "Running", "decision": decision}
        self.stage.job(key, running if node else None, **self.cluster.jobs[key])
        if node:
            self.stage.pod(key, epoch=1, seat=0, node=node)

    def play(self, changes: int = CHANGES) -> None:
        for _ in range(changes):
            self.random.choice(DEEDS)(self)
            if self.stage.term.decider.afresh.is_set() or self.random.random() < 0.1:
                self.begin()
            self.stage.rounds()
            assert not self.stage.term.decider.serial_queue.broken
            self.check()
            self.steps += 1

    # --- what people do -----------------------------------------------------------------------

    def put_queue(self) -> None:
        name, draw = self.random.choice(QUEUES), self.random.random
        spec: Raw = {}
        if draw() < 0.6:
            spec["namespaces"] = self.random.sample(NAMESPACES, self.random.randint(1, 2))
        if draw() < 0.3:
            spec["max_priority"] = self.random.randint(-1, 1)
        if draw() < 0.3:
            spec["parent"] = self.random.choice(QUEUES)
        if draw() < 0.3:
            spec["limit"] = self.random.randint(0, 3)
        if draw() < 0.1:
            spec |= UNREADABLE
        self.cluster.queues[name] = spec
        self.stage.queue(name, **spec)

    def drop_queue(self) -> None:
        name = self.random.choice(QUEUES)
        if self.cluster.queues.pop(name, None) is not None:
            raw = {"metadata": self.stage._about(name), "spec": {}}
            self.stage.term.queues.take_event("DELETED", raw)

    def submit(self) -> None:
        self.names += 1
        key = f"{self.random.choice(NAMESPACES)}/job-{self.names}"
        queue, priority = self.random.choice(QUEUES), self.random.randint(-1, 2)
        self.cluster.jobs[key] = {"queue": queue, "priority": priority}
        self.show(key)
        self.stage.term.intake._meet(key)

    def drop_job(self) -> None:
        if self.cluster.jobs:
            self.drop([self.random.choice(sorted(self.cluster.jobs))])

    def drop_namespace(self) -> None:
        namespace = self.random.choice(NAMESPACES)
        self.drop([key for key in self.cluster.jobs if of(key) == namespace])

    def drop(self, keys: list[str]) -> None:
        for key in keys:
            del self.cluster.jobs[key]
            self.cluster.seated.pop(key, None)
        self.begin()

    # --- what must hold -----------------------------------------------------------------------

    def check(self) -> None:
        """Who was given a seat may have it; who has none may not, or his queue is full."""
        state, queues, jobs = self.stage.term.brain.state, self.cluster.queues, self.cluster.jobs
        slots = {key: state.slot_of[JobId(key)] for key in jobs}
        holding = {key for key, slot in slots.items() if state.state_of(slot).holds_seats}
        lost = [key for key in self.cluster.seated if key not in holding]
        assert not lost, f"{lost} were ended"
        for key, spec in jobs.items():
            if key in self.cluster.seated:
                continue
            may = allowed(queues, key, spec)
            full = any(use >= most for use, most in self.bounds(key, holding))
            if key in holding:
                assert may, f"{key} has a seat: {spec}, {queues}"
                self.take_seat(key, slots[key], holding)
            else:
                assert not may or full, f"{key} has no seat: {spec}, {queues}"
                self.refusals += 1

    def bounds(self, key: str, holding: set[str]) -> Iterator[tuple[int, int]]:
        """For each limit above the job: GPUs in use below it, and the limit.

        Who trains on in a queue that he may no longer use is counted in none.
        """
        queues, jobs = self.cluster.queues, self.cluster.jobs
        lawful = [one for one in holding if allowed(queues, one, jobs[one])]
        for name in path(queues, jobs[key]["queue"]):
            if "limit" in queues[name]:
                below = [one for one in lawful if name in path(queues, jobs[one]["queue"])]
                yield len(below), queues[name]["limit"]

    def take_seat(self, key: str, slot: int, holding: set[str]) -> None:
        """It is within every limit when it is given; most are recorded, and train from then on."""
        if key not in self.granted:
            over = [one for one in self.bounds(key, holding) if one[0] > one[1]]
            assert not over, f"{key} was seated beyond a limit: {over}"
            self.granted.add(key)
            self.seats += 1
        if self.random.random() < 0.75:
            assignment = self.stage.term.brain.state.seating.assignments[slot]
            assert assignment is not None
            self.cluster.seated[key] = assignment.placement.nodes[0]
            self.show(key)


DEEDS: Final = (
    *(Play.put_queue, Play.put_queue, Play.put_queue, Play.drop_queue),
    *(Play.submit, Play.submit, Play.submit, Play.drop_job, Play.drop_namespace),
)


def of(key: str) -> str:
    """The namespace of a job."""
    return key.partition("/")[0]


def allowed(queues: dict[str, Raw], key: str, spec: dict[str, Any]) -> bool:
    """The rule, written down once more: where there are no queues, there is one for all."""
    if not queues:
        return bool(spec["queue"] == "default")
    queue = queues.get(spec["queue"], {})
    named, most = queue.get("namespaces"), queue.get("max_priority")
    return bool(path(queues, spec["queue"])) and (
        (not named or of(key) in named) and (most is None or spec["priority"] <= most)
    )


def path(queues: dict[str, Raw], name: str) -> tuple[str, ...]:
    """The queue and all above it; none where one of them is missing, unreadable or in a circle."""
    found: tuple[str, ...] = ()
    above: str | None = name
    while above is not None:
        queue = queues.get(above)
        if queue is None or above in found or UNREADABLE.items() <= queue.items():
            return ()
        found = (*found, above)
        above = queue.get("parent")
    return found
