"""What out-of-memory failures teach of the widths at which a job runs."""

from dataclasses import replace

from weft.brain.event import JobFailed
from weft.brain.state.brain_state import BrainState
from weft.failure.evidence import FailureClass
from weft.model.request import Width


def exclude_width(state: BrainState, slot: int, event: JobFailed) -> bool:
    """Whether GPUs were too small at a width that the job had not asked for.

    A job that fails so on fewer GPUs than it asked for gets at least twice as many from then on,
    and one that fails so on more gets at most half of them, but never more or less than it asked
    for. It learns its limits in as many starts as the width has doublings.
    """
    kind = event.failure.kind if event.diagnosis is None else event.diagnosis.kind
    width, given = state.spec(slot).width, int(state.jobs.width[slot])
    if kind is not FailureClass.GPU_MEMORY or given == width.asked_gpus:
        return False
    asked = width.asked_gpus
    if given < asked:
        limits = Width(min(2 * given, asked), width.max_gpus, asked)
    else:
        limits = Width(width.min_gpus, max(given // 2, asked), asked)
    _limit(state, slot, limits)
    return True


def _limit(state: BrainState, slot: int, width: Width) -> None:
    spec, jobs = state.spec(slot), state.jobs
    state.ranged += width.elastic - spec.width.elastic
    state.specs[slot] = replace(spec, width=width)
    jobs.min_gpus[slot], jobs.max_gpus[slot] = width.min_gpus, width.max_gpus
    state.tell_kind(slot)
