"""Lives in a row: workers that are lost again and again before they have come further.

Whoever dies without a step will hardly make one. Whoever always dies at the same step makes some in
each life, and would begin anew for ever; by chance that happens too, so it may happen more often.
"""

from dataclasses import dataclass

from weft.agent.coordination.limits import Limits
from weft.agent.messages import FRESH


@dataclass(slots=True)
class Lives:
    """How many in a row made no step, and how many none that had not been made before.

    Of the worker that was `lost` last it is told how it ended: the others were lost like it.
    """

    fruitless: int = 0
    repeats: int = 0
    furthest: int = FRESH
    begun_after: int = FRESH
    lost: int | None = None

    def count(self, *, made: int, saved: int) -> None:
        """Another one is over; a newer snapshot than the one it began with is worth it as well."""
        further = made > self.furthest or saved > self.begun_after
        self.furthest = max(self.furthest, made)
        self.fruitless = 0 if made > self.begun_after else self.fruitless + 1
        self.repeats = 0 if further else self.repeats + 1

    def why_no_more(self, limits: Limits) -> str:
        """Why there is to be no other; nothing if there may be one."""
        if self.fruitless > limits.most_fruitless:
            return f"lost {self.fruitless} times without a step"
        if self.repeats > limits.most_repeats:
            return f"lost {self.repeats} times no further than {self.furthest + 1} steps"
        return ""
