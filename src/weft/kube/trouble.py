"""Something that is not as it should be with a node, as a monitor or a driver tells it."""

from dataclasses import dataclass
from typing import Final

MOST_MESSAGE: Final = 300


@dataclass(frozen=True, slots=True)
class Trouble:
    """What, in a word and in a sentence, and since when."""

    kind: str
    message: str
    since: float | None
