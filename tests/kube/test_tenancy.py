"""Who may run where, after any sequence of changes to queues and jobs, against an oracle.

Queues come, go, and change their lists, their bounds and their parents, before and after the jobs
that name them, and the operator begins afresh now and then. Whoever is given a seat must be allowed
to have it by what the objects say at that moment; whoever is allowed one gets it, since there is
room for all. `WEFT_THOROUGH=1` plays 10,000 sequences, otherwise 150 are played.
"""

import asyncio
import os
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from tests.kube.stage import Raw, Stage
from weft.kube.metrics import Metrics
from weft.model.ids import JobId

SEQUENCES = 10_000 if os.environ.get("WEFT_THOROUGH") else 150
CHUNKS = 20 if os.environ.get("WEFT_THOROUGH") else 1
CHANGES = 12
QUEUES = ("default", "research", "prod")
NAMESPACES = ("a", "b", "c")
METRICS = Metrics()


@dataclass
class Cluster:
    """The objects that there are, and who has been given a seat, and where."""

    queues: dict[str, Raw] = field(default_factory=dict)
    jobs: dict[str, Raw] = field(default_factory=dict)
    seated: dict[str, str] = field(default_factory=dict)


class Play:
    """One sequence."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = Cluster()
        self.names = 0
        self.begin()

    def begin(self) -> None:
        """A term that knows nothing but the objects."""
        self.stage = Stage("fifo", metrics=METRICS)
        self.stage.node("n1")
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

    def play(self) -> None:
        for _ in range(CHANGES):
            self.random.choice((self.put_queue, self.put_queue, self.drop_queue, self.submit))()
            if self.stage.term._afresh.is_set() or self.random.random() < 0.1:
                self.begin()
            self.stage.rounds()
            assert not self.stage.term._turns.broken
            self.check()

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
        self.stage.term._meet(key)

    # --- what must hold -----------------------------------------------------------------------

    def check(self) -> None:
        state = self.stage.term.brain.state
        for key, spec in self.cluster.jobs.items():
            slot = state.slot_of[JobId(key)]
            if key in self.cluster.seated:
                assert state.state_of(slot).holds_seats, f"{key} was ended"
                continue
            seated = state.state_of(slot).holds_seats
            assert seated is allowed(self.cluster.queues, key, spec), (key, spec, seated)
            if seated:
                assignment = state.seating.assignments[slot]
                assert assignment is not None
                self.cluster.seated[key] = assignment.placement.nodes[0]
                self.show(key)


def allowed(queues: dict[str, Raw], key: str, spec: dict[str, Any]) -> bool:
    """The rule, written down once more."""
    if not any(usable(queues, name, ()) for name in queues):
        return spec["queue"] == "default" and fits(queues.get("default", {}), key, spec)
    return usable(queues, spec["queue"], ()) and fits(queues[spec["queue"]], key, spec)


def fits(queue: Raw, key: str, spec: dict[str, Any]) -> bool:
    named = queue.get("namespaces")
    most = queue.get("max_priority")
    return (not named or key.partition("/")[0] in named) and (
        most is None or spec["priority"] <= most
    )


def usable(queues: dict[str, Raw], name: str, below: tuple[str, ...]) -> bool:
    """It is there, and so is every queue above it, without a circle."""
    if name not in queues or name in below:
        return False
    parent = queues[name].get("parent")
    return parent is None or usable(queues, parent, (*below, name))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_nobody_is_ever_seated_where_the_objects_do_not_allow_it(chunk: int) -> None:
    async def scene() -> None:
        each = SEQUENCES // CHUNKS
        for seed in range(chunk * each, (chunk + 1) * each):
            try:
                Play(seed).play()
            except Exception as error:
                error.add_note(f"seed {seed}")
                raise

    asyncio.run(scene())
