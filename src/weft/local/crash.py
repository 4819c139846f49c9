"""The moments of the daemon at which a test may let it die (see `weft.crash`).

Between deciding, recording, acting and acknowledging there are moments in which the world, the
record and the brain differ. Each has a name here.
"""

from typing import Final

from weft.crash import passing

__all__ = ["POINTS", "passing"]

POINTS: Final = (
    "submitted",
    "introduced",
    "decided",
    "before-record",
    "recorded",
    "launched",
    "birth-recorded",
    "acknowledged",
    "running",
    "before-target",
    "target-recorded",
    "resize-ordered",
    "before-seats",
    "seats-recorded",
    "resized",
    "before-stop",
    "stop-recorded",
    "drain-ordered",
    "swept",
    "before-end",
    "end-recorded",
    "ended",
    "before-final",
    "final",
)
