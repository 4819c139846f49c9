"""How a worker, and a job, ended, told by an exit code.

0 is finished; 143 is what a shell says of SIGTERM, and here means: drained at a boundary, with a
snapshot; 75 is the `EX_TEMPFAIL` of sysexits.h: the machinery failed, try again; a death by signal
is laid to the machinery too, because no program of a user ends itself so on purpose; all else is an
error of the user's program.
"""

import os
from enum import StrEnum
from typing import Final

FINISHED: Final = 0
INFRASTRUCTURE: Final = os.EX_TEMPFAIL
DRAINED: Final = 143
FIRST_SIGNAL: Final = 128
LAST_SIGNAL: Final = 192


class Outcome(StrEnum):
    """What the end means for who looks after the job."""

    FINISHED = "finished"
    DRAINED = "drained"
    INFRASTRUCTURE = "infrastructure"
    USER_ERROR = "user error"

    @classmethod
    def of(cls, code: int) -> "Outcome":
        """What an exit code means; a negative one is a signal, as `subprocess` has it."""
        if code == FINISHED:
            return cls.FINISHED
        if code == DRAINED:
            return cls.DRAINED
        if code == INFRASTRUCTURE or code < 0 or FIRST_SIGNAL < code < LAST_SIGNAL:
            return cls.INFRASTRUCTURE
        return cls.USER_ERROR
