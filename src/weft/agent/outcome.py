"""How a worker, and a job, ended, told by an exit code and, for who comes later, by a file.

0 is finished; 143 is what a shell says of SIGTERM, and here means: drained at a boundary, with a
snapshot; 75 is the `EX_TEMPFAIL` of sysexits.h: the machinery failed, try again; a death by signal
is laid to the machinery too, because no program of a user ends itself so on purpose, and so is 143
where nobody was asked to leave; all else is an error of the user's program.
"""

import json
import os
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

FINISHED: Final = 0
INFRASTRUCTURE: Final = os.EX_TEMPFAIL
DRAINED: Final = 143
FIRST_SIGNAL: Final = 128
LAST_SIGNAL: Final = 192
OUTCOME: Final = "outcome.json"


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


@dataclass(frozen=True, slots=True)
class Ending:
    """A job's end, with its last committed and its last durable step (-1 where there is none)."""

    outcome: Outcome
    exit_code: int
    why: str
    step: int
    saved_step: int
    ended_at: float

    def write(self, folder: Path) -> None:
        """To be found whole or not at all."""
        unfinished = folder / f"{OUTCOME}.tmp"
        unfinished.write_text(json.dumps(asdict(self)))
        unfinished.replace(folder / OUTCOME)
