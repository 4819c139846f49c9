"""The moments of the operator at which a test may let it die (see `weft.crash`).

Between observing, deciding, recording, creating and acknowledging there are moments in which the
world and the record differ. Each has a name here; those of a resize come beside the creation and
deletion of pods, which it shares with starts and stops.
"""

from typing import Final

from weft.crash import passing

__all__ = ["POINTS", "RESIZE_POINTS", "TRIAL_POINTS", "passing"]

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

RESIZE_POINTS: Final = (
    "before-resize",
    "resize-recorded",
    "joined",
    "before-resized",
    "resized",
    "resize-acknowledged",
)

TRIAL_POINTS: Final = ("trial-made",)
