"""Host curves, and what a job is fed, come back from a journal as they went in."""

from collections.abc import Sequence

from tests.builders import a_job, a_node
from weft.brain.brain import Brain
from weft.brain.event import Event, JobReported, JobSubmitted
from weft.brain.instruction import Feed, Instruction
from weft.brain.journal import Journal, encode
from weft.lab.journals.journal_file import decode
from weft.model.cluster import Cluster
from weft.model.host import HostCurve
from weft.policy.recipes import sensitivity
from weft.sim.world import World

CURVE = HostCurve((1.0, 3.0, 6.0), (20.0, 60.0), ((0.1, 0.4), (0.1, 1.0), (0.1, 1.9)))


class Kept(Journal):
    """Everything that was recorded, as it was."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[tuple[Event, Sequence[Instruction]]] = []

    def record(self, event: Event, instructions: Sequence[Instruction]) -> None:
        self.entries.append((event, instructions))


def test_every_line_reads_back() -> None:
    kept = Kept()
    nodes = Cluster((a_node("n0", 4, cpus=12.0, memory_gib=240.0),))
    job = a_job("a", 1, cpus_per_gpu=3.0, memory_gib_per_gpu=60.0, host=CURVE)
    World(nodes, [job], Brain(sensitivity()), journal=kept).run()
    for number, (event, instructions) in enumerate(kept.entries, start=1):
        assert decode(number, encode(event, instructions)).event == event
    events = [event for event, _ in kept.entries]
    assert any(
        isinstance(e, JobSubmitted) and e.job.host is not None and e.job.host.curve == CURVE
        for e in events
    )
    assert any(isinstance(e, JobReported) and e.fed is not None for e in events)
    assert any(isinstance(i, Feed) for _, said in kept.entries for i in said)
