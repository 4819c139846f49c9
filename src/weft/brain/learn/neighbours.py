"""What a measured speed says of a job's neighbours.

Only where they stayed the same while it was measured: who came or went meanwhile spoils it.
"""

from weft.brain.event import JobMeasured
from weft.brain.state.brain_state import BrainState
from weft.brain.state.neighbour_book import Setting, label_of
from weft.model.state import State

ROUNDING_SECONDS = 1.0


def hear_neighbours(state: BrainState, slot: int, event: JobMeasured, now: float) -> None:
    """Learn from it how much slower the job is beside those who sit there now."""
    book = state.neighbours
    if event.units_per_second <= 0 or not _is_telling(state, slot, event):
        return
    if book.is_repeated(slot, event) or not _stood_still(state, slot, now - event.seconds):
        return
    others = neighbours_of(state, slot)
    speed, setting = event.units_per_second, _setting(state, slot, event)
    best = book.see(slot, setting, speed, alone=not others)
    if others:
        labels = [label_of(state.spec(other)) for other in others]
        book.slowdowns.learn(label_of(state.spec(slot)), labels, best / speed - 1.0, now)


def neighbours_of(state: BrainState, slot: int) -> list[int]:
    """Jobs that run on other GPUs of its nodes; those who take turns with it are none."""
    own = set(state.seating.company.members(slot))
    rows = (row for node in set(state.nodes_of(slot)) for row in state.seating.held_on[node])
    there = {int(state.seats.slot[row]) for row in rows}
    return sorted(other for other in there - own if state.state_of(other) is State.RUNNING)


def _is_telling(state: BrainState, slot: int, event: JobMeasured) -> bool:
    """Whether it is of the job as it is now, alone on its GPUs, in a way that can be compared."""
    runs = state.state_of(slot) is State.RUNNING and int(state.jobs.epoch[slot]) == event.epoch
    same = runs and event.gpus == int(state.jobs.width[slot]) > 0
    apart = not state.seating.company.shares(slot) and event.shared_steps_per_second is None
    return same and apart and state.spec(slot).splits is None


def _stood_still(state: BrainState, slot: int, since: float) -> bool:
    rows, jobs = set(state.nodes_of(slot)), state.jobs
    left = max(state.neighbours.left_at.get(row, float("-inf")) for row in rows)
    came = max(
        (float(max(jobs.started[s], jobs.resized[s])) for s in neighbours_of(state, slot)),
        default=float("-inf"),
    )
    return max(left, came) <= since + ROUNDING_SECONDS


def _setting(state: BrainState, slot: int, event: JobMeasured) -> Setting:
    rows, nodes = state.nodes_of(slot), state.nodes
    racks = len({int(nodes.rack[row]) for row in rows})
    return event.gpus, event.nodes, racks, int(nodes.gpu_type[rows[0]]), round(event.cpus, 3)
