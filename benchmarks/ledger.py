"""The ledger: an account of every run of every job, kept at the door between brain and world.

It is a journal that also listens. What it knows are the messages only: a run begins when the
brain says `Start` and ends when the world says that it has ended. Time waited is then what is
left of a job's life, and neither the brain's booking of waits nor the world's record has a part
in it. Work is counted anew as well, from the seats of each run.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from weft.brain.event import Event, InstructionDone, JobFailed, JobFinished, Verb
from weft.brain.instruction import Instruction, Start
from weft.brain.journal import Journal
from weft.model.cluster import Cluster
from weft.model.ids import JobId
from weft.model.job import Job


@dataclass(slots=True)
class Account:
    """What the messages say of one job. `work_seconds` is running time at its placements' speed."""

    running_seconds: float = 0.0
    work_seconds: float = 0.0
    finishes: int = 0
    since: float | None = None
    speed: float = 1.0


class Ledger(Journal):
    """Hashes like any journal, and keeps accounts."""

    def __init__(self, jobs: Sequence[Job], cluster: Cluster) -> None:
        super().__init__()
        self.accounts = {job.id: Account() for job in jobs}
        self.doubles = 0
        self.starts_by_nodes: dict[int, dict[int, int]] = {}
        self._jobs = {job.id: job for job in jobs}
        self._sizes = sorted((node.gpus for node in cluster.nodes), reverse=True)
        self._fewest: dict[int, int] = {}

    def record(self, event: Event, instructions: Sequence[Instruction]) -> None:
        super().record(event, instructions)
        kind = type(event)
        if kind is JobFinished or kind is InstructionDone or kind is JobFailed:
            self._hear(event)  # type: ignore[arg-type]
        for instruction in instructions:
            if type(instruction) is Start:
                self._begin(event.at, instruction)

    def fewest_nodes(self, width: int) -> int:
        """Of the widest nodes first: what the tightest placement takes."""
        found = self._fewest.get(width)
        if found is None:
            reached, found = 0, 0
            while reached < width:
                reached += self._sizes[found]
                found += 1
            self._fewest[width] = found
        return found

    def _hear(self, event: JobFinished | InstructionDone | JobFailed) -> None:
        if type(event) is InstructionDone and event.verb is Verb.START:
            return
        account = self.accounts[event.job]
        if account.since is None:
            self.doubles += 1
            return
        seconds = event.at - account.since
        account.since = None
        account.running_seconds += seconds
        account.work_seconds += seconds * account.speed
        account.finishes += type(event) is JobFinished

    def _begin(self, at: float, start: Start) -> None:
        account = self.accounts[start.job]
        if account.since is not None or account.finishes:
            self.doubles += 1
        seats, width = start.assignment.placement.seats, start.assignment.width
        account.since = at
        account.speed = self._speed(start.job, len(seats), width)
        by_nodes = self.starts_by_nodes.setdefault(width, {})
        by_nodes[len(seats)] = by_nodes.get(len(seats), 0) + 1

    def _speed(self, job: JobId, nodes: int, width: int) -> float:
        if nodes == 1:
            return 1.0
        locality = self._jobs[job].truth.locality
        return 1.0 / locality.slowdown(nodes=nodes, fewest_nodes=self.fewest_nodes(width))
