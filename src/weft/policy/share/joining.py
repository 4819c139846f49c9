"""Joining: who waits takes turns with somebody who sits, in order of rank.

Groups that were formed on paper have to be made of jobs that run already, and to stop those for a
better match would cost more than most matches bring. So nobody is moved: each who waits, the first
in rank first, joins the party with which most is gained, as long as no guard speaks against it.
What is gained is the rise of A, the work that the party does by that of one job alone, less what
such parties were measured to lose.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.model.snapshot import Bools, Floats, Ints
from weft.model.stages import StageProfile
from weft.perf.interleaving.experience import Experience, signature_of
from weft.perf.interleaving.group import GroupForecast, columns_of, foretold, foretold_all
from weft.policy.share.guards import CONTEXT_GIB, ORDER, RESERVE, Guard, Limits, beyond_cap

NOTHING = -np.inf


@dataclass(frozen=True, slots=True)
class Guest:
    """A job that could take turns: its stages, and how much slower it may become."""

    profile: StageProfile
    cap: float

    @property
    def memory_gib(self) -> float:
        """Of a GPU at its peak, with what a process takes; NaN where nobody knows."""
        held = self.profile.gpu_memory_bytes
        return np.nan if held is None else held / 2**30 + CONTEXT_GIB


@dataclass(frozen=True, slots=True)
class Refusal:
    """What speaks against one who waits joining any party: of that with which most is gained."""

    party: int
    guard: Guard


class Parties:
    """Parties of one width, as rows; `memory_gib` is what each GPU of theirs has, if known."""

    def __init__(
        self,
        members: Sequence[Sequence[Guest]],
        memory_gib: Sequence[float],
        limits: Limits,
        experience: Experience,
    ) -> None:
        self._members = [list(party) for party in members]
        self._memory_gib = np.array(memory_gib, np.float64)
        self._limits = limits
        self._experience = experience
        self._gains: dict[Guest, Floats] = {}
        self._rises: dict[Guest, Floats] = {}
        self._guards: dict[Guest, Ints] = {}

    def best(self, guest: Guest, possible: Bools) -> int | None:
        """The party with which this one gains most; None if there is none."""
        gains = np.where(possible, self._gain(guest), NOTHING)
        if not len(gains) or gains.max() == NOTHING:
            return None
        return int(gains.argmax())

    def refusal(self, guest: Guest, possible: Bools) -> Refusal | None:
        """What kept it from the party with which it would have gained most."""
        self._gain(guest)
        guarded = possible & (self._guards[guest] > 0)
        if not guarded.any():
            return None
        row = int(np.where(guarded, self._rises[guest], NOTHING).argmax())
        return Refusal(row, ORDER[int(self._guards[guest][row])])

    def forecast(self, party: int, guest: Guest) -> GroupForecast:
        """The guest first, then the members in their order."""
        profiles = [guest.profile, *(member.profile for member in self._members[party])]
        return foretold(profiles, self._limits.cycles).slower(self._losing(profiles))

    def join(self, party: int, guest: Guest) -> None:
        self._members[party].append(guest)
        for known in self._gains:
            self._judge(known, np.array([party]))

    def _gain(self, guest: Guest) -> Floats:
        if guest not in self._gains:
            self._gains[guest] = np.full(len(self._members), NOTHING)
            self._rises[guest] = np.full(len(self._members), NOTHING)
            self._guards[guest] = np.zeros(len(self._members), np.int64)
            self._judge(guest, np.arange(len(self._members)))
        return self._gains[guest]

    def _judge(self, guest: Guest, rows: Ints) -> None:
        """Fill in what is gained with these parties, and what speaks against them."""
        sizes = np.array([len(self._members[row]) for row in rows.tolist()], np.int64)
        for size in np.unique(sizes).tolist():
            some = rows[sizes == size]
            if size >= self._limits.most_members:
                self._gains[guest][some] = NOTHING
                self._guards[guest][some] = 0
                continue
            parties = [[*self._members[row], guest] for row in some.tolist()]
            after, slowdowns = self._aggregates(parties)
            before, _ = self._aggregates([party[:-1] for party in parties])
            guard = self._guarded(some, parties, slowdowns, before, after)
            self._rises[guest][some] = after - before
            self._guards[guest][some] = guard
            self._gains[guest][some] = np.where(guard == 0, after - before, NOTHING)

    def _aggregates(self, parties: Sequence[Sequence[Guest]]) -> tuple[Floats, Floats]:
        """A of each, and the slowdowns of its members."""
        profiles = [[member.profile for member in party] for party in parties]
        flat = [profile for party in profiles for profile in party]
        stages, alone = columns_of(flat)
        shape = (len(parties), len(parties[0]))
        found = foretold_all(stages.reshape(*shape, -1), alone.reshape(shape), self._limits.cycles)
        losing = np.array([self._losing(party) for party in profiles])
        return found.aggregate / losing, found.slowdowns * losing[:, None]

    def _losing(self, profiles: Sequence[StageProfile]) -> float:
        """How many times longer than foretold such a party takes; never less than once."""
        if len(profiles) == 1:
            return 1.0
        return max(self._experience.factor(signature_of(profiles)), 1.0)

    def _guarded(
        self,
        rows: Ints,
        parties: Sequence[Sequence[Guest]],
        slowdowns: Floats,
        before: Floats,
        after: Floats,
    ) -> Ints:
        """The row of the first guard that applies, 0 for none."""
        caps = np.array([[member.cap for member in party] for party in parties])
        memory = np.array([[member.memory_gib for member in party] for party in parties])
        there = self._memory_gib[rows] * (1.0 - RESERVE)
        counted = np.isfinite(there)
        broken = {
            Guard.MEMORY_UNKNOWN: counted & np.isnan(memory).any(axis=1),
            Guard.MEMORY: counted & (np.nan_to_num(memory).sum(axis=1) > there),
            Guard.SLOWDOWN: beyond_cap(slowdowns, caps),
            Guard.GAIN: after < self._limits.least_gain * np.maximum(before, 1.0),
        }
        found = np.zeros(len(rows), np.int64)
        for guard, breaks in broken.items():
            found = np.where((found == 0) & breaks, ORDER.index(guard), found)
        return found
