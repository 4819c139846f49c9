"""The moments of a step at which a test may let a worker die.

See `weft.crash`; between two of them what this worker has done and what the others know differs.
"""

from typing import Final

POINTS: Final = (  # of one step in their order, at each of which a process may die
    "step-opened",
    "batch-fetched",
    "before-backward",
    "bucket-sent",
    "after-backward",
    "summed",
    "before-vote",
    "vote-cast",
    "voted",
    "applied",
    "committed",
    "step-closed",
)
