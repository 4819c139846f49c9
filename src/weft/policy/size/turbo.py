"""AITurbo's widths: the least for everybody by rank, and what is idle where it is missed most.

AITurbo moves a job by one GPU at a time, where that takes most off what the job still costs the
cluster (`order.gains`). On a concave curve no growth ever does: every job shrinks to its least
width, which is right while others wait for GPUs and leaves them idle when nobody does. So the rule
as published says what everybody gets first: the least width, by rank.

What is then idle goes where it shortens completion times most. Which of two jobs that is, AFS
derives without any length: it is enough to know which of them is to end first (`size.afs`). Borda's
line says just that, of jobs that can be predicted and of jobs that cannot, so unpredictable jobs
are sized by their curve and by the service they had, and never by a guess at what they have left.
(To give them the width they asked for before anybody grows was tried: on the first seed of the
benchmark's mixes mean completion times were 21 to 23 % longer.)
"""

from dataclasses import dataclass

import numpy as np

from weft.model.snapshot import Ints
from weft.policy.size.afs import handed_out_by
from weft.policy.size.climb import Climb, Climbing


@dataclass(frozen=True, slots=True, kw_only=True)
class Turbo(Climbing):
    """Least widths first, the surplus by AFS's rule with the rank in place of the length."""

    def climbed(self, climb: Climb, left: int) -> Ints:
        return handed_out_by(climb, np.arange(len(climb.first), dtype=np.float64), left)
