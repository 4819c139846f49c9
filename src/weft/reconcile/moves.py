"""Why a job was stopped for itself: what it goes to instead, in words for its owner."""

from weft.brain.state.brain_state import BrainState
from weft.model.ids import JobId

RESTARTED = "restarted to "


def why_moved(state: BrainState, job: JobId) -> str:
    """To another plan, to another width, or to the same elsewhere, as was decided."""
    slot = state.slot_of.get(job)
    held = None if slot is None else state.seating.assignments[slot]
    wanted = None if slot is None else state.next_assignment.get(slot)
    if held is None or wanted is None:
        return f"{RESTARTED}go on elsewhere"
    if held.plan.text != wanted.plan.text:
        return f"{RESTARTED}switch from plan '{held.plan.text}' to plan '{wanted.plan.text}'"
    if held.width != wanted.width:
        return f"{RESTARTED}go from {held.width} to {wanted.width} GPUs"
    return f"{RESTARTED}go to {', '.join(wanted.placement.nodes)}"
