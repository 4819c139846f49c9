"""The moments of the operator at which a test may let it die (see `weft.crash`).

Between observing, deciding, recording, creating and acknowledging there are moments in which the
world and the record differ. Each has a name here.
"""

from typing import Final

from weft.crash import passing

__all__ = ["POINTS", "passing"]

POINTS: Final = (
    "observed",
    "decided",
    "before-record",
    "recorded",
    "created",
    "gathered",
    "acknowledged",
    "before-stop",
    "stop-recorded",
    "deleted",
    "stopped",
    "before-final",
    "final",
)
