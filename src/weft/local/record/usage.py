"""What each user has had of the machine, and what their fair part of it would have been.

Both are kept as GPU seconds that only grow. The fair part of a moment is max-min: all get alike,
nobody more than the jobs of theirs that wait or run could use. Whoever asks for nothing is owed
nothing, so an idle night is no claim on the morning.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from weft.local.record.entry import Entry, slots_held

MOST_PAUSE_SECONDS: Final = 60.0
"""What lies between two looks that are further apart nobody has seen."""


@dataclass(frozen=True, slots=True)
class Usage:
    """GPU seconds of one user since the first of their jobs."""

    got: float = 0.0
    owed: float = 0.0

    def plus(self, got: float, owed: float) -> "Usage":
        return Usage(self.got + got, self.owed + owed)


@dataclass(frozen=True, slots=True)
class Demand:
    """What one user holds now, and could use."""

    held: int = 0
    wanted: int = 0


class Ledger:
    """Adds up from look to look; what has changed since it was written down is `fresh`."""

    def __init__(self, written: Mapping[str, Usage]) -> None:
        self.users: dict[str, Usage] = dict(written)
        self.fresh: dict[str, Usage] = {}
        self._looked: float | None = None

    def look(self, now: float, slots: int, demands: Mapping[str, Demand]) -> None:
        """As it is now it has been since the last look."""
        before, self._looked = self._looked, now
        passed = 0.0 if before is None else min(max(now - before, 0.0), MOST_PAUSE_SECONDS)
        if not passed:
            return
        parts = fair_parts(slots, {user: one.wanted for user, one in demands.items()})
        for user, one in demands.items():
            known = self.users.get(user, Usage())
            self.users[user] = known.plus(one.held * passed, parts[user] * passed)
            self.fresh[user] = self.users[user]

    def keep(self, unwritten: Mapping[str, Usage]) -> None:
        """These could not be written down: they stay to be, unless there are newer ones."""
        self.fresh = {**unwritten, **self.fresh}


def fair_parts(slots: int, wanted: Mapping[str, int]) -> dict[str, float]:
    """Max-min: whoever wants least first, each an equal part of what is left."""
    left, parts = float(slots), {}
    for number, (user, most) in enumerate(sorted(wanted.items(), key=lambda one: one[1])):
        parts[user] = min(float(most), left / (len(wanted) - number))
        left -= parts[user]
    return parts


def demands_of(entries: Iterable[Entry], most: Mapping[str, int]) -> dict[str, Demand]:
    """By user; `most` is how wide each job could be, by its uid."""
    of_user: dict[str, list[Entry]] = defaultdict(list)
    wanted: dict[str, int] = defaultdict(int)
    for entry in entries:
        if not entry.state.final:
            of_user[entry.owner.user].append(entry)
            wanted[entry.owner.user] += max(most.get(entry.uid, 0), entry.width)
    return {user: Demand(slots_held(of_user[user]), wanted[user]) for user in wanted}
