"""What every message is, and the values that several kinds of them carry."""

from dataclasses import dataclass
from typing import Any, Final

NOWHERE: Final = -1
FRESH: Final = -1  # the step before the first
STATELESS: Final = -2  # the last step of a worker that has not received the state

Members = tuple[int, ...]
Names = tuple[str, ...]
Json = dict[str, Any]
Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Message:
    """What is common to all: the worker that speaks or is spoken to stands in the connection."""
