"""Who leads the workers of a job, and who may come to.

The agents of a job's pods have one head. It begins on the first seat. A seat that has lost it
claims the next *term*, and gets it if it is the first to do so; a head that has lost seats names
them, and may go on without them once that is on record. What is on record decides: it is written
before anybody is told, so whoever is the operator then, one head at most goes on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from weft.kube.names import HEAD_SEAT
from weft.kube.reports.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Headship:
    """The seat that leads, its term, and the seats that were given up and cannot claim."""

    seat: int = HEAD_SEAT
    term: int = 1
    lost: tuple[int, ...] = ()

    def followed_by(self, claim: "Headship") -> "Headship":
        """What holds if that seat speaks as a head; a `Refusal` where it is none.

        Whoever was given up in any term of an epoch has a state of long ago, and never leads it.
        """
        if claim.seat != self.seat or claim.term != self.term:
            self._check(claim)
        return Headship(claim.seat, claim.term, tuple(sorted({*self.lost, *claim.lost})))

    def _check(self, claim: "Headship") -> None:
        if claim.term <= self.term:
            raise Refusal(
                410, f"seat {self.seat} leads, in term {self.term}", hint="End, or ask for it."
            )
        if claim.seat in self.lost:
            raise Refusal(
                410, "this seat was given up by those who train on", hint="End this worker."
            )


FIRST: Final = Headship()


def read_headship(told: Mapping[str, Any] | None) -> Headship:
    """As the status has it; where it says nothing, the first seat leads in the first term."""
    if not told:
        return FIRST
    lost = tuple(sorted(int(seat) for seat in told.get("lost") or ()))
    return Headship(int(told.get("seat", HEAD_SEAT)), int(told.get("term", 1)), lost)
