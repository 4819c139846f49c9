"""Groups by matching: pairs first, then pairs of pairs, each time the heaviest matching there is.

This is Muri's way, with merges taken best first where it takes them as they come, and with guards
where it has none. `published` leaves the guards out and weighs by utilisation, as its authors did;
ours weighs by A, the work that gets done. Only jobs of one width are matched, and only until what
is asked for fits.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from weft.model.snapshot import Floats, Ints
from weft.perf.interleaving.group import LOCK_STEP, foretold_all
from weft.policy.share.candidates import Candidates
from weft.policy.share.grouping import Grouping, by_width, everybody_alone, fitted
from weft.policy.share.guards import Limits, judged
from weft.policy.share.matching import Pairs, heaviest

Members = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Blossom:
    """A choice of groups by rounds of matching."""

    published: bool = False

    def __call__(self, jobs: Candidates, free_gpus: int, limits: Limits) -> Grouping:
        left = jobs.demand_gpus - free_gpus
        if left <= 0:
            return everybody_alone(jobs, free_gpus, limits)
        if self.published:
            limits = replace(limits, cycles=LOCK_STEP)
        unions = _Unions(jobs, limits, published=self.published)
        groups: dict[int, list[Members]] = {
            width: [(row,) for row in rows] for width, rows in by_width(jobs).items()
        }
        merged = True
        while left > 0 and merged:
            merged = False
            for width, here in groups.items():
                pairs = unions.matching(here)[: max(-(-left // width), 0)]
                groups[width] = _merged(here, pairs)
                left -= width * len(pairs)
                merged |= bool(pairs)
        name = "blossom, as published" if self.published else "blossom"
        every = [group for many in groups.values() for group in many]
        return fitted(jobs, every, free_gpus, limits, name)


class _Unions:
    """What unions of groups are worth, by the types in them: few, however many jobs there are."""

    def __init__(self, jobs: Candidates, limits: Limits, *, published: bool) -> None:
        self._jobs = jobs
        self._limits = limits
        self._published = published
        self._worth: dict[Members, float] = {}

    def matching(self, groups: Sequence[Members]) -> Pairs:
        """The heaviest matching of these groups, best pairs first."""
        kinds: dict[Members, int] = {}
        of_group = [kinds.setdefault(self._types(group), len(kinds)) for group in groups]
        return heaviest(self._table(list(kinds)), np.array(of_group, np.int64))

    def _types(self, group: Members) -> Members:
        return tuple(sorted(self._jobs.types.of_job[list(group)].tolist()))

    def _table(self, kinds: Sequence[Members]) -> Floats:
        """The worth of every union of two kinds of groups; 0 where they may not be put together."""
        found = np.zeros((len(kinds), len(kinds)))
        for unions in self._unions(kinds).values():
            worth = self._judge(np.array([union for _, _, union in unions], np.int64))
            for (one, other, union), value in zip(unions, worth.tolist(), strict=True):
                self._worth[union] = value
                if self._gains(value, kinds[one], kinds[other]):
                    found[one, other] = found[other, one] = value
        return found

    def _unions(self, kinds: Sequence[Members]) -> dict[int, list[tuple[int, int, Members]]]:
        """By size, with the rows of both parts."""
        found = defaultdict(list)
        for one, first in enumerate(kinds):
            for other, second in enumerate(kinds[: one + 1]):
                if len(first) + len(second) <= self._limits.most_members:
                    union = tuple(sorted(first + second))
                    found[len(union)].append((one, other, union))
        return found

    def _gains(self, worth: float, one: Members, other: Members) -> bool:
        """Whether the union does more than its better part; as published it need not."""
        parts = max(self._worth.get(one, 1.0), self._worth.get(other, 1.0))
        return self._published or worth > self._limits.least_gain * parts

    def _judge(self, members: Ints) -> Floats:
        if self._published:
            types = self._jobs.types
            stages, alone = types.stages[members], types.alone_seconds[members]
            model = self._limits.cycles
            return foretold_all(stages, alone, model).utilisation / model.slower(members.shape[1])
        found = judged(self._jobs, members, self._limits)
        return np.where(found.passed, found.forecast.aggregate, 0.0)


def _merged(groups: Sequence[Members], pairs: Pairs) -> list[Members]:
    """The groups with these pairs of them as one, in the place of the first."""
    joined = dict(pairs)
    gone = set(joined.values())
    return [
        one + groups[joined[row]] if row in joined else one
        for row, one in enumerate(groups)
        if row not in gone
    ]
