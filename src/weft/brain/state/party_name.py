"""The name of a party, by which a new brain finds from reports who takes turns with whom."""

from weft.brain.state.brain_state import BrainState
from weft.model.ids import JobId, PartyId


def party_of(state: BrainState, slot: int) -> PartyId:
    """The name of those who take turns with it, by the first of them; of one alone, its own.

    One that is to start will have its name by the next epoch.
    """
    assignment = state.seating.assignments[slot]
    if assignment is not None and assignment.party:
        return assignment.party
    epoch = int(state.jobs.epoch[slot]) + (not state.state_of(slot).holds_seats)
    return PartyId(f"{state.spec(slot).id}/{epoch}")


def lead_of_party(state: BrainState, party: PartyId) -> int | None:
    """Who holds the GPUs of the party of that name, if anybody sits there."""
    for slot in state.seating.of_party.get(party, ()):
        return state.seating.company.lead(slot)
    founder = state.slot_of.get(JobId(party.rpartition("/")[0]))
    if founder is None or not state.seating.seat_rows[founder]:
        return None
    return state.seating.company.lead(founder) if party_of(state, founder) == party else None
