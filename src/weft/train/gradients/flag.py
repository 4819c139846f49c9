"""The flags of the control word; without torch, because the protocol speaks of them too."""

from enum import IntEnum


class Flag(IntEnum):
    """What a member may raise for all to see; the value is its place in the control word."""

    ARMED = 0
    DRAIN = 1
    SAVE = 2
    YIELD = 3
