"""What is refused at the door: events whose numbers cannot be.

A number that is none would be carried from column to column and surface long after the event that
brought it. So it is refused before anything has changed. What workers measured is a claim, not a
fact of the world, and is judged where it is learnt from (`Learning.hear`).
"""

from collections.abc import Callable, Iterator
from math import isfinite, isnan
from typing import Any, Final

from weft.brain.event import (
    Event,
    InstructionDone,
    InstructionRefused,
    JobFailed,
    JobReported,
    JobSubmitted,
    NodeAdded,
    NodeChanged,
    PastRecalled,
    QueueChanged,
)
from weft.brain.state.brain_state import BrainState
from weft.model.errors import BadEvent, SpecError
from weft.model.placement import Seat

Figure = tuple[str, float]

MOST: Final = 1e18
MOST_GPUS: Final = 10_000_000
"""Sums of what is below these stay within what a column holds."""


def check(event: Event, state: BrainState) -> None:
    """Raise unless the event can be taken in; the state is looked at and not changed."""
    if not isfinite(event.at):
        raise _refusal(event, "at", event.at)
    figures = _FIGURES.get(type(event))
    if figures is not None:
        for name, figure in figures(event):
            if not 0 <= figure <= (MOST_GPUS if name.endswith("gpus") else MOST):
                raise _refusal(event, name, figure)
    if isinstance(event, QueueChanged):
        _check_queue(event, state)


def _check_queue(event: QueueChanged, state: BrainState) -> None:
    """Edits of single queues can contradict each other: guarantees, parents, circles."""
    try:
        state.tree.with_queue(event.queue)
    except SpecError as error:
        raise BadEvent(f"queue {event.queue.id}: {error}", hint=error.hint) from error


def _refusal(event: Event, name: str, figure: float) -> BadEvent:
    return BadEvent(
        f"{type(event).__name__} of {getattr(event, 'job', 'the cluster')} says {name} = {figure}",
        hint="the world that reports must leave out what it does not know",
    )


# --- the numbers of each event --------------------------------------------------------------------


def _submitted(event: JobSubmitted) -> Iterator[Figure]:
    yield "submit_seconds", event.job.submit_seconds


def _reported(event: JobReported) -> Iterator[Figure]:
    yield "epoch", event.epoch
    yield "work_done", event.work_done
    yield "serial", event.serial
    yield "next_seat", event.next_seat
    if event.past is not None:
        yield "past.attained_gpu_seconds", event.past.attained_gpu_seconds
        yield "past.failures", event.past.failures
        yield "past.refusals", event.past.refusals
        yield "past.preemptions", event.past.preemptions
        yield "past.losses", event.past.losses
    if event.fed is not None:
        yield "fed.cores", event.fed.cores
        yield "fed.memory_gib", event.fed.memory_gib
        yield "fed.serial", event.fed.serial
    for seat in () if event.placement is None else event.placement.seats:
        yield from _seat(seat)


def _seat(seat: Seat) -> Iterator[Figure]:
    yield "seat.gpus", seat.gpus
    yield "seat.cpus", seat.cpus
    yield "seat.memory_gib", seat.memory_gib
    yield "seat.number", seat.number


def _failed(event: JobFailed) -> Iterator[Figure]:
    yield "work_kept", event.work_kept


def _done(event: InstructionDone) -> Iterator[Figure]:
    yield "work_kept", event.work_kept or 0.0
    yield "paused_seconds", event.paused_seconds or 0.0
    yield "serial", event.serial


def _recalled(event: PastRecalled) -> Iterator[Figure]:
    yield "served_gpu_seconds", event.served_gpu_seconds
    yield "restarted", event.restarted_gpus  # over all jobs there ever were, so no number of GPUs


def _refused(event: InstructionRefused) -> Iterator[Figure]:
    yield "serial", event.serial


def _node(event: NodeAdded | NodeChanged) -> Iterator[Figure]:
    yield "gpus", event.node.gpus
    for name, amount in (("cpus", event.node.cpus), ("memory_gib", event.node.memory_gib)):
        if amount is not None and (isnan(amount) or amount < 0):
            yield name, amount


_FIGURES: dict[type, Callable[[Any], Iterator[Figure]]] = {
    JobSubmitted: _submitted,
    JobReported: _reported,
    JobFailed: _failed,
    InstructionDone: _done,
    InstructionRefused: _refused,
    PastRecalled: _recalled,
    NodeAdded: _node,
    NodeChanged: _node,
}
