"""Beside whom a job is slower, as far as the brain has learnt it from measured speeds."""

from dataclasses import dataclass

from weft.brain.brain import Brain
from weft.brain.learn.neighbours import neighbours_of
from weft.brain.state.neighbour_book import label_of
from weft.model.ids import JobId
from weft.model.state import State

NOTABLE = 0.03


@dataclass(frozen=True, slots=True)
class Beside:
    """A neighbour on these nodes, and by which share of its time alone the job is slower for it."""

    job: JobId
    nodes: tuple[str, ...]
    slower: float


def slowed_by(brain: Brain, job: JobId) -> tuple[Beside, ...]:
    """The worst first; nobody where nothing was learnt, or the job does not run."""
    state, slot = brain.state, brain.state.slot_of.get(job)
    if slot is None or state.state_of(slot) is not State.RUNNING:
        return ()
    mine, own = label_of(state.spec(slot)), set(state.placement(slot).nodes)
    found = []
    for other in neighbours_of(state, slot):
        spec = state.spec(other)
        slower = state.neighbours.slowdowns.slower(mine, label_of(spec), brain.now)
        if slower >= NOTABLE:
            nodes = sorted(str(node) for node in own & set(state.placement(other).nodes))
            found.append(Beside(spec.id, tuple(nodes), slower))
    return tuple(sorted(found, key=lambda one: -one.slower))
