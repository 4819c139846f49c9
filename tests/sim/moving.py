"""Worlds in which small jobs move for gangs, and ones in which gangs that failed keep their seats.

Drawn apart from everything else, so that a seed without it is the world that it always was. Seeds
below a thousand, by which the missing defences are found, have neither.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING

from tests.sim.promise import PromiseBroken
from weft.brain.brain import Settings
from weft.model.ids import JobId
from weft.model.state import State
from weft.policy.recipe import Defragmenting, Recipe

if TYPE_CHECKING:
    from tests.sim.random_world import RandomWorld

FIRST_SEED = 1_000
SHARE_OF_WORLDS = 0.25
CAME_BACK = "came back to its seats"
SOON = 1e-6


def moves_for_gangs(seed: int) -> bool:
    """Whether small jobs of that world move."""
    return seed >= FIRST_SEED and Random(f"cleared {seed}").random() < SHARE_OF_WORLDS


def moving(seed: int, recipe: Recipe) -> Recipe:
    """Sooner than outside of tests; who places all anew in each round moves nobody."""
    anew = recipe.yielding is not None and recipe.yielding.reshuffle
    if anew or recipe.planning is not None:
        return recipe
    rng = Random(f"moving {seed}")
    rules = Defragmenting(
        worth=rng.choice((0.0, 0.1, 2.0)),
        stay_seconds=rng.choice((30.0, 300.0)),
        most_asked=rng.choice((1, 4)),
    )
    return replace(recipe, defragmenting=rules)


def keeps_seats(seed: int) -> bool:
    """Whether also small gangs of that world keep their seats when they fail."""
    return seed >= FIRST_SEED and Random(f"sticks {seed}").random() < SHARE_OF_WORLDS


def keeping(seed: int, settings: Settings) -> Settings:
    rng = Random(f"keeping {seed}")
    return replace(
        settings,
        keep_seats_gpus=rng.choice((1, 2, 4)),
        keep_seats_seconds=rng.choice((30.0, 200.0, 600.0)),
    )


def kept_by_node(world: "RandomWorld") -> Counter[str]:
    """GPUs that may be kept for gangs that failed and wait."""
    state, found = world.brain.state, Counter[str]()
    for slot, hold in state.failures.holds.items():
        if state.state_of(slot) is State.QUEUED:
            for row, gpus in hold.shares:
                found[state.node_ids[row]] += gpus
    return found


@dataclass(slots=True)
class HoldWatch:
    """What is kept is nobody else's, and not for long (F6)."""

    seen: Counter[str]
    free: dict[str, int] = field(default_factory=dict)
    nodes: dict[JobId, frozenset[str]] = field(default_factory=dict)

    def before(self, world: "RandomWorld") -> None:
        state = world.brain.state
        if state.failures.holds:
            self.free = _free(world)
        self.nodes = {
            state.spec(slot).id: frozenset(state.node_ids[row] for row, _ in hold.shares)
            for slot, hold in state.failures.holds.items()
        }

    def heard(self, world: "RandomWorld") -> None:
        state, settings = world.brain.state, world.brain.settings
        for slot, hold in state.failures.holds.items():
            if not 0.0 < hold.until - world.now + SOON <= settings.keep_seats_seconds + 2 * SOON:
                raise PromiseBroken("F6", f"{state.spec(slot).id} has {hold} at {world.now}")
        if world.brain.decision is not None and not world.auditor.rebuilding:
            self._decided(world)

    def _decided(self, world: "RandomWorld") -> None:
        decision = world.brain.decision
        assert decision is not None
        for grant in decision.grants:
            if self.nodes.get(grant.job, frozenset()) & set(grant.assignment.placement.nodes):
                self.seen[CAME_BACK] += 1
        if self.nodes and _must_keep(world):
            self._left_alone(world)

    def _left_alone(self, world: "RandomWorld") -> None:
        """A round leaves what was free before it and is kept."""
        state, now = world.brain.state, _free(world)
        avoided = {node for kind in state.kinds for node in kind.avoid}
        for node, gpus in kept_by_node(world).items():
            free = self.free.get(node, 0) >= gpus and node in now and node not in avoided
            if free and now[node] < gpus:
                raise PromiseBroken("F6", f"{node} keeps {gpus} GPUs and has {now[node]}")


def _must_keep(world: "RandomWorld") -> bool:
    """Whether nothing gives a round the right to let go: no quota, no cores, no breaker."""
    state = world.brain.state
    resting = (state.jobs.not_before[s] >= one.until for s, one in state.failures.holds.items())
    strangers = (state.jobs.queue[slot] < 0 for slot in state.failures.holds)
    if state.quota.limited or state.counts_host or any(resting) or any(strangers):
        return False
    return _keeps(world.brain.recipe)


def _keeps(recipe: Recipe) -> bool:
    yielding = recipe.yielding
    anew = yielding is not None and (yielding.reshuffle or yielding.regrouping is not None)
    return not anew and recipe.planning is None


def _free(world: "RandomWorld") -> dict[str, int]:
    """GPUs of open nodes in nobody's seats, nor promised to those who move."""
    state, seats = world.brain.state, world.brain.state.seats
    found = {node.id: node.gpus for node in world.open_nodes()}
    for row in range(state.seat_count):
        name = state.node_ids[int(seats.node[row])]
        if seats.slot[row] >= 0 and name in found:
            found[name] -= int(seats.gpus[row])
    for moved in state.next_assignment.values():
        for seat in moved.placement.seats:
            if seat.node in found:
                found[seat.node] -= seat.gpus
    return {str(node): gpus for node, gpus in found.items()}
