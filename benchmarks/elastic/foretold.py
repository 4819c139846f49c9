"""What the brain's own rule said of each job's width, from the journal of a run.

The journal holds everything that the brain was told. A second brain is told the same, and says
again what it said then: its sizing rule is listened to, at every round, and what comes out must be
the instructions that the first one gave.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from weft.brain.brain import Brain
from weft.brain.event import Event, InstructionDone, InstructionRefused, JobFinished, Verb
from weft.brain.instruction import Resize
from weft.brain.journal import encode
from weft.lab.journals.journal_file import JournalFile
from weft.model.ids import JobId
from weft.model.queue import QueueTree
from weft.model.snapshot import Ints, Snapshot
from weft.policy.size.requested import Size
from weft.policy.supply import Supply
from weft.spec.recipe import make_recipe

Widths = Mapping[str, int]
Curve = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Foretold:
    """The rule's widths by time, the last curves that were learnt, and what became of orders.

    `undone` are resizes that were neither done nor overtaken by the end of their job, `pauses` what
    the agents say that the others cost, and `differences` counts records of which the second brain
    said something else.
    """

    targets: tuple[tuple[float, Widths], ...]
    curves: Mapping[str, Curve]
    undone: int
    pauses: tuple[float, ...]
    differences: int

    def width(self, job: str, at: float) -> int:
        """The rule's width for a job at a time."""
        found = [widths.get(job, 0) for since, widths in self.targets if since <= at]
        return found[-1] if found else 0


@dataclass(slots=True)
class _Listening:
    """A sizing rule, and what it said."""

    size: Size
    begin: float
    explores: bool
    targets: list[tuple[float, Widths]] = field(default_factory=list)
    curves: dict[str, Curve] = field(default_factory=dict)

    def __call__(self, snapshot: Snapshot, slots: Ints, supply: Supply) -> Ints:
        widths = self.size(snapshot, slots, supply)
        jobs = snapshot.jobs
        exploring = (jobs.explore[slots] > 0) & self.explores
        shown = np.where(exploring, np.minimum(widths, jobs.explore[slots]), widths)
        names = [_name(snapshot, slot) for slot in slots.tolist()]
        said = dict(zip(names, shown.tolist(), strict=True))
        self.targets.append((snapshot.now - self.begin, said))
        for name, slot in zip(names, slots.tolist(), strict=True):
            reach = np.arange(1, int(jobs.max_gpus[slot]) + 1)
            speeds = snapshot.speeds(np.full(len(reach), slot), reach)
            self.curves[name] = dict(zip(reach.tolist(), speeds.tolist(), strict=True))
        return widths


def foretold(journal: Path, begin: float) -> Foretold:
    """By a brain that is told what the first one was; times count from `begin`."""
    file = JournalFile(journal)
    header = file.header()
    recipe = make_recipe(header.recipe)
    resizing = recipe.resizing
    listening = _Listening(recipe.size, begin, resizing is not None and resizing.explore)
    brain = Brain(
        replace(recipe, size=listening), tree=QueueTree(header.queues), settings=header.settings
    )
    orders, differences = _Orders(), 0
    for entry in file.entries():
        instructions = brain.handle(entry.event)
        differences += encode(entry.event, instructions) != entry.line
        orders.answered(entry.event)
        for instruction in instructions:
            if isinstance(instruction, Resize):
                orders.given(instruction)
    return Foretold(
        tuple(listening.targets),
        listening.curves,
        orders.undone + len(orders.waiting),
        tuple(orders.pauses),
        differences,
    )


@dataclass(slots=True)
class _Orders:
    """Resizes that wait for their answer, and what became of the others."""

    waiting: dict[JobId, int] = field(default_factory=dict)
    undone: int = 0
    pauses: list[float] = field(default_factory=list)

    def given(self, order: Resize) -> None:
        """A later one takes the place of one that waits."""
        self.waiting[order.job] = order.serial

    def answered(self, event: Event) -> None:
        match event:
            case JobFinished(job=job):
                self.waiting.pop(job, None)
            case InstructionDone(job=job, verb=Verb.RESIZE) if job in self.waiting:
                del self.waiting[job]
                self.pauses += [] if event.paused_seconds is None else [event.paused_seconds]
            case InstructionRefused(job=job, verb=Verb.RESIZE) if job in self.waiting:
                del self.waiting[job]
                self.undone += 1


def _name(snapshot: Snapshot, slot: int) -> str:
    spec = snapshot.specs[slot]
    assert spec is not None
    return spec.id.partition("/")[2]
