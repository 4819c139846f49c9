"""When jobs take turns: a part of a recipe."""

from dataclasses import dataclass, field

from weft.policy.share.candidates import DEFAULT_CAP
from weft.policy.share.grouping import Choice
from weft.policy.share.guards import Limits


@dataclass(frozen=True, slots=True)
class Regrouping:
    """Groups are chosen anew in every round, among candidates so many deep on every GPU."""

    choice: Choice
    cap: float = float("inf")
    limits: Limits = field(default_factory=Limits)
    depth: int = 4


@dataclass(frozen=True, slots=True)
class Sharing:
    """Who cannot be seated may join a party, if all of them together do more than before.

    Nobody is slowed more than `cap` times, unless its queue says otherwise, and a party has at most
    `most_members`. It must do `least_gain` times the work that it did without the newcomer. Of
    those who wait the `most_asked` that rank highest are asked in a round. A companion gets GPUs of
    its own as soon as there are some and that saves `worth` times what its restart costs. Where it
    does not `mixes_tenants`, only jobs of one tenant take turns.
    """

    cap: float = DEFAULT_CAP
    least_gain: float = 1.02
    most_members: int = 4
    most_asked: int = 256
    worth: float = 2.0
    mixes_tenants: bool = True

    @property
    def limits(self) -> Limits:
        return Limits(least_gain=self.least_gain, most_members=self.most_members)
