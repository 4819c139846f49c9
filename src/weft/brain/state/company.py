"""Who takes turns with whom: a lead, and its companions in the order in which they came.

The lead holds the GPUs for all of them. Whoever is in no table has its GPUs to itself.
"""

from collections.abc import Iterator


class Company:
    """Both ways: the lead of each companion, and the companions of each lead."""

    __slots__ = ("_companions", "_lead_of")

    def __init__(self) -> None:
        self._companions: dict[int, list[int]] = {}
        self._lead_of: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._lead_of)

    def leads(self) -> Iterator[int]:
        """Those with companions."""
        return iter(self._companions)

    def companions(self, slot: int) -> tuple[int, ...]:
        """Of a lead; nobody is anybody's companion's companion."""
        return tuple(self._companions.get(slot, ()))

    def lead(self, slot: int) -> int:
        """Who holds the GPUs that it runs on: another job, or itself."""
        return self._lead_of.get(slot, slot)

    def is_companion(self, slot: int) -> bool:
        return slot in self._lead_of

    def members(self, slot: int) -> tuple[int, ...]:
        """All of its party, the lead first; of a job alone, itself."""
        lead = self.lead(slot)
        return (lead, *self._companions.get(lead, ()))

    def shares(self, slot: int) -> bool:
        """Whether it takes turns with anybody."""
        return slot in self._lead_of or slot in self._companions

    def join(self, slot: int, lead: int) -> None:
        self._lead_of[slot] = lead
        self._companions.setdefault(lead, []).append(slot)

    def leave(self, slot: int) -> None:
        """A companion goes; a lead has to be followed by another first."""
        lead = self._lead_of.pop(slot, None)
        if lead is not None:
            self._companions[lead].remove(slot)
            if not self._companions[lead]:
                del self._companions[lead]

    def follow(self, lead: int, heir: int) -> None:
        """The heir, a companion so far, leads; the lead becomes the last of its companions."""
        others = self._companions.pop(lead)
        others.remove(heir)
        del self._lead_of[heir]
        self._companions[heir] = [*others, lead]
        for slot in self._companions[heir]:
            self._lead_of[slot] = heir

    def copied(self) -> "Company":
        twin = Company()
        twin._lead_of = dict(self._lead_of)
        twin._companions = {lead: list(others) for lead, others in self._companions.items()}
        return twin
