"""A job's life as a table of legal transitions; everything else is a defect and raises."""

from weft.model.errors import IllegalTransition
from weft.model.ids import JobId
from weft.model.state import State

LEGAL: dict[State, frozenset[State]] = {
    State.QUEUED: frozenset(
        {
            State.ADMITTED,  # a round gave it seats that are still being freed
            State.STARTING,  # a round gave it free seats
            State.RUNNING,  # a rebuilt brain found it running
            State.STOPPING,  # a rebuilt brain found an incarnation that must go
            State.FAILED,  # the retry budget is spent
            State.CANCELLED,
        }
    ),
    State.ADMITTED: frozenset(
        {
            State.STARTING,  # its seats are free now
            State.QUEUED,  # its seats were lost before it could start
            State.CANCELLED,
        }
    ),
    State.STARTING: frozenset(
        {
            State.RUNNING,
            State.QUEUED,  # the world refused the start: nothing runs
            State.STOPPING,  # cancelled, or a node was lost, while it started
            State.SUCCEEDED,  # it finished before the start was acknowledged
            State.FAILED,
        }
    ),
    State.RUNNING: frozenset(
        {
            State.RESIZING,
            State.STOPPING,  # preempted, cancelled, or a worker was lost
            State.QUEUED,  # it failed, or is gone, and will be retried
            State.SUCCEEDED,
            State.FAILED,
        }
    ),
    State.RESIZING: frozenset(
        {State.RUNNING, State.STOPPING, State.QUEUED, State.SUCCEEDED, State.FAILED}
    ),
    State.STOPPING: frozenset(
        {
            State.QUEUED,  # preempted or its workers lost: waits again
            State.ADMITTED,  # moved: the next seats are already assigned
            State.SUCCEEDED,  # it finished before it could be stopped
            State.CANCELLED,
            State.FAILED,
        }
    ),
    State.SUCCEEDED: frozenset(),
    State.FAILED: frozenset(),
    State.CANCELLED: frozenset(),
}


def check_transition(job: JobId, old: State, new: State) -> None:
    """Raise unless the table has this edge."""
    if new not in LEGAL[old]:
        raise IllegalTransition(
            f"job {job} cannot go from {old.name} to {new.name}",
            hint="replay the journal up to this event; the brain's bookkeeping is wrong",
        )
