"""How many times slower company may make a job: as its queue says, else as the recipe does."""

from weft.brain.state.brain_state import BrainState
from weft.policy.share.sharing import Sharing


def slowdown_cap(state: BrainState, slot: int, sharing: Sharing | None) -> float:
    """Without sharing there is no cap: nobody is in company but by an earlier brain's word."""
    otherwise = float("inf") if sharing is None else sharing.cap
    return state.tree.max_slowdown(state.spec(slot).queue, otherwise)
