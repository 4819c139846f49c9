"""A job whose node is lost runs again elsewhere within five minutes."""

from collections.abc import Sequence

from tests.builders import a_cluster, a_job
from weft.brain.brain import Brain
from weft.brain.event import Event, InstructionDone, NodeLost, Verb
from weft.brain.instruction import Instruction, Start
from weft.brain.journal import Journal
from weft.policy.recipes import RECIPES
from weft.sim.costs import Costs, constant
from weft.sim.faults import Faults
from weft.sim.world import World

CONTAINER_SECONDS = 60.0
LOST_AT = 1000.0
DETECTED_SECONDS = 60.0
FIVE_MINUTES = 300.0


class Starts(Journal):
    """When the job was told to start, and when it ran."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[float] = []
        self.ran: list[float] = []

    def record(self, event: Event, instructions: Sequence[Instruction]) -> None:
        self.told += [event.at for one in instructions if isinstance(one, Start)]
        if isinstance(event, InstructionDone) and event.verb is Verb.START:
            self.ran.append(event.at)


def test_a_gang_of_64_nodes_runs_again_within_five_minutes_of_losing_one() -> None:
    """Who may still write is waited for first, then the containers start."""
    gang = a_job("gang", 64 * 8, seconds=7200.0, checkpoint_interval_seconds=600.0)
    starts = Starts()
    costs = Costs("slow", start=constant(CONTAINER_SECONDS), stop=constant(10.0))
    lost = NodeLost(LOST_AT, a_cluster(nodes=66).nodes[3].id)
    world = World(
        a_cluster(nodes=66),
        [gang],
        Brain(RECIPES["backfill"]()),
        costs=costs,
        faults=Faults(planned=(lost,), lease_seconds=20.0),
        journal=starts,
    )
    world.run()
    assert len(starts.ran) == 2
    assert starts.told[1] - LOST_AT <= DETECTED_SECONDS
    assert starts.ran[1] - LOST_AT <= FIVE_MINUTES
