"""States of a job's life. Which may follow which is a table in `brain.lifecycle`."""

from enum import IntEnum


class State(IntEnum):
    """Where a job stands. The first six are active, the last three final."""

    QUEUED = 0
    ADMITTED = 1
    STARTING = 2
    RUNNING = 3
    RESIZING = 4
    STOPPING = 5
    SUCCEEDED = 6
    FAILED = 7
    CANCELLED = 8

    @property
    def final(self) -> bool:
        return self >= State.SUCCEEDED

    @property
    def holds_seats(self) -> bool:
        """Whether the world may have processes of this job on its seats."""
        return self in HOLDING


HOLDING = frozenset({State.STARTING, State.RUNNING, State.RESIZING, State.STOPPING})
