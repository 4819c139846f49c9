"""States of a job's life. Which may follow which is a table in `brain.lifecycle`."""

from enum import IntEnum


class State(IntEnum):
    """Where a job stands. The first seven are active, the last three final."""

    QUEUED = 0
    ADMITTED = 1
    STARTING = 2
    RUNNING = 3
    RESIZING = 4
    MIGRATING = 5
    STOPPING = 6
    SUCCEEDED = 7
    FAILED = 8
    CANCELLED = 9

    @property
    def final(self) -> bool:
        return self >= State.SUCCEEDED

    @property
    def holds_seats(self) -> bool:
        """Whether the world may have processes of this job on its seats."""
        return State.STARTING <= self <= State.STOPPING
