"""A brain under load, and a world that obeys at once: what is timed is the brain alone.

Jobs are as wide as those that are found running in Philly (an arrival weighs as much as it lasts),
tilted to a mean of four GPUs, so that GPUs / 4 running jobs fill a cluster; 5/8 × GPUs more wait,
and are like them, so that the load keeps its shape. The number of jobs is kept constant: whoever
ends is followed by a new one. Only least attained service finds a shape of its own: it counts
GPU-seconds, so narrow jobs run for longer, and twice as many run while fewer wait. Under a recipe
that resizes, jobs may have from half to twice as many GPUs, and nobody knows their curves.
"""

import math
from collections import deque
from collections.abc import Iterator
from random import Random
from time import perf_counter, process_time
from typing import NamedTuple

from weft.brain import invariants
from weft.brain.brain import Brain
from weft.brain.event import (
    Event,
    InstructionDone,
    JobFinished,
    JobReported,
    JobSubmitted,
    NodeAdded,
    Phase,
    Tick,
)
from weft.brain.instruction import Instruction, Preempt, Resize, Start, Stop
from weft.model.claim import WorkClaim
from weft.model.cluster import Cluster
from weft.model.ids import JobId, QueueId, TenantId
from weft.model.queue import Queue, QueueTree
from weft.model.request import JobRequest, Width
from weft.policy.recipe import Recipe

NODE_GPUS = 8
MEAN_GPUS = 4.0
# Share of the running time of all 82,247 jobs by width.
RUNNING_WIDTHS = {1: 0.5888, 2: 0.0521, 4: 0.1363, 8: 0.1974, 16: 0.0234, 24: 0.0002, 32: 0.0019}
MEDIAN_WORK_SECONDS = 6 * 3600.0
WORK_SIGMA = 1.5
DEPARTMENTS, TEAMS = 7, 6
SETTLING_ROUNDS = 12
SETTLING_SECONDS = 900.0


class Cost(NamedTuple):
    """What a round took: by the clock, and of the processor, which others may be using too."""

    wall_seconds: float
    cpu_seconds: float


class Desk:
    """One brain, driven by hand. Every instruction is carried out and answered at once."""

    def __init__(self, recipe: Recipe, cluster: Cluster, tree: QueueTree) -> None:
        self.brain = Brain(recipe, tree=tree)
        self.now = 0.0
        self.running: dict[JobId, int] = {}
        for node in cluster.nodes:
            self.tell(NodeAdded(self.now, node))

    def tell(self, event: Event) -> None:
        """Hand an event in and answer all that follows from it."""
        self._obey(self.brain.handle(event))

    def round(self, after_seconds: float) -> Cost:
        """Let time pass and tick; what that cost the brain."""
        self.now += after_seconds
        rounds = self.brain.rounds
        begin, begin_cpu = perf_counter(), process_time()
        instructions = self.brain.handle(Tick(self.now))
        cost = Cost(perf_counter() - begin, process_time() - begin_cpu)
        assert self.brain.rounds == rounds + 1, "no round was due"
        invariants.demand(invariants.check(self.brain.state, self.brain.decision))
        self._obey(instructions)
        return cost

    @property
    def jobs(self) -> int:
        return len(self.brain.state.slot_of)

    def _obey(self, instructions: list[Instruction]) -> None:
        todo = deque(instructions)
        while todo:
            for answer in self._answers(todo.popleft()):
                todo.extend(self.brain.handle(answer))

    def _answers(self, instruction: Instruction) -> Iterator[Event]:
        if not isinstance(instruction, Start | Resize | Preempt | Stop):
            return
        now, job, epoch = self.now, instruction.job, instruction.epoch
        serial = instruction.serial if isinstance(instruction, Resize) else 0
        if isinstance(instruction, Preempt | Stop):
            del self.running[job]
        yield InstructionDone(now, job, epoch, instruction.verb, serial=serial)
        if isinstance(instruction, Start):
            self.running[job] = epoch
            seats = instruction.assignment.placement
            yield JobReported(now, job, epoch, Phase.RUNNING, 0.0, placement=seats, live=True)


class Load:
    """Jobs that come and go at a desk."""

    def __init__(self, recipe: Recipe, gpus: int, *, seed: int = 0) -> None:
        self._random = Random(seed)
        self._count = 0
        self._queues = _teams()
        self._widths, self._shares = _tilted(RUNNING_WIDTHS, MEAN_GPUS)
        self._elastic = recipe.resizing is not None
        self.run_jobs, self.wait_jobs = gpus // 4, gpus * 5 // 8
        self.desk = Desk(recipe, Cluster.uniform(gpus // NODE_GPUS, NODE_GPUS), queue_tree(gpus))
        self._settle()

    def change(self, *, most: int | None = None) -> None:
        """About one in a hundred running jobs ends; others come until all are there again."""
        running = list(self.desk.running)
        for job in self._random.sample(running, max(len(running) // 100, 1)):
            epoch = self.desk.running.pop(job)
            self.desk.tell(JobFinished(self.desk.now, job, epoch))
        missing = self.run_jobs + self.wait_jobs - self.desk.jobs
        self._submit(missing if most is None else min(missing, most))

    @property
    def waiting(self) -> int:
        return self.desk.jobs - len(self.desk.running)

    def _settle(self) -> None:
        """Fill the cluster, let a line form, and give the orders a past to go by."""
        self._submit(self.run_jobs)
        for _ in range(SETTLING_ROUNDS):
            self.desk.round(SETTLING_SECONDS)
            self.change(most=self.wait_jobs // (SETTLING_ROUNDS // 2))
        self.desk.round(SETTLING_SECONDS)

    def _submit(self, count: int) -> None:
        for _ in range(count):
            self.desk.tell(JobSubmitted(self.desk.now, self._job()))

    def _job(self) -> JobRequest:
        self._count += 1
        (width,) = self._random.choices(self._widths, self._shares)
        # Squaring makes the first teams much larger than the last.
        queue = self._queues[int(len(self._queues) * self._random.random() ** 2)]
        seconds = self._random.lognormvariate(math.log(MEDIAN_WORK_SECONDS), WORK_SIGMA)
        return JobRequest(
            id=JobId(f"j{self._count}"),
            width=self._width(width),
            work=WorkClaim(seconds),
            submit_seconds=self.desk.now,
            queue=queue,
            tenant=TenantId(queue),
        )

    def _width(self, asked: int) -> Width:
        return Width(max(asked // 2, 1), 2 * asked, asked) if self._elastic else Width.fixed(asked)


def queue_tree(gpus: int) -> QueueTree:
    """Three levels, fifty queues: guarantees for every department and every second team, and
    limits on every third team and on one department."""
    queues = [Queue(id=QueueId("all"))]
    for number in range(DEPARTMENTS):
        department = QueueId(f"d{number}")
        queues.append(
            Queue(
                id=department,
                parent=QueueId("all"),
                guaranteed_gpus=gpus * 12 // 100,
                limit_gpus=gpus * 40 // 100 if number == 0 else None,
            )
        )
        queues += [_team(department, number * TEAMS + team, gpus) for team in range(TEAMS)]
    return QueueTree(tuple(queues))


def _team(department: QueueId, number: int, gpus: int) -> Queue:
    return Queue(
        id=QueueId(f"t{number}"),
        parent=department,
        guaranteed_gpus=gpus * 3 // 100 if number % 2 == 0 else None,
        limit_gpus=max(gpus * 8 // 100, NODE_GPUS) if number % 3 == 0 else None,
    )


def _teams() -> list[QueueId]:
    return [QueueId(f"t{number}") for number in range(DEPARTMENTS * TEAMS)]


def _tilted(shares: dict[int, float], mean: float) -> tuple[list[int], list[float]]:
    """The shares, each times e^(θ width), with the θ that gives them that mean."""
    low, high = -1.0, 1.0
    weights = list(shares.values())
    for _ in range(50):
        tilt = (low + high) / 2
        weights = [share * math.exp(tilt * width) for width, share in shares.items()]
        found = sum(w * width for w, width in zip(weights, shares, strict=True)) / sum(weights)
        low, high = (tilt, high) if found < mean else (low, tilt)
    return list(shares), weights
