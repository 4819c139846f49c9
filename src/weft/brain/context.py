"""What the parts of a brain share: the state, the recipe, the settings and the time.

Each part is given this one object and nothing of another part but what it names in its
constructor, so what can change what is seen where the parts are wired (`Brain`).
"""

from dataclasses import dataclass, replace

from weft.brain.settings import Settings
from weft.brain.state.brain_state import BrainState
from weft.policy.recipe import Recipe


@dataclass(slots=True)
class Context:
    """One cluster as the brain knows it, now."""

    state: BrainState
    recipe: Recipe
    settings: Settings
    now: float = 0.0

    def copied(self) -> "Context":
        """The same with a state of its own."""
        return replace(self, state=self.state.copied())
