"""The states of a job as people read them: `Queued`, `Running`, `Failed`."""

from typing import Final

from weft.model.state import State

STATES: Final = tuple(state.name.capitalize() for state in State)
FINISHED: Final = frozenset(state.name.capitalize() for state in State if state.final)
WAITING: Final = frozenset({"Queued", "Admitted"})
HOLDING: Final = frozenset(state.name.capitalize() for state in State if state.holds_seats)
