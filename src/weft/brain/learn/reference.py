"""A measured speed as it would be on a GPU of the job's reference type.

Curves are kept for GPUs of speed 1 and multiplied by the speed of the type that a job is put on. A
measurement has that in it already, so it is taken out before anything is learnt from it.
"""

from math import isfinite

from weft.brain.event import JobMeasured
from weft.brain.state.brain_state import BrainState


def reference_speed(state: BrainState, slot: int, event: JobMeasured) -> float | None:
    """Work per second on GPUs of speed 1; None where nobody can say what it was measured on."""
    type_speed = _type_speed(state, slot, event.epoch)
    if type_speed is None or not isfinite(event.units_per_second) or event.units_per_second <= 0:
        return None
    return event.units_per_second / type_speed


def _type_speed(state: BrainState, slot: int, epoch: int) -> float | None:
    """Of the GPUs that the job has in this epoch; of an earlier one only if all are alike."""
    spec = state.spec(slot)
    speeds = {accepted.speed for accepted in spec.gpu_types} or {1.0}
    if len(speeds) > 1:
        held = state.seating.assignments[slot]
        if held is None or epoch != state.jobs.epoch[slot]:
            return None
        speeds = {spec.type_speed(state.node_table.gpu_type(held.placement))}
    return speeds.pop() or None
