"""Columns: all groups that types could form, judged once, and what each is worth.

A group of types is a multiset. Eight types have 494 of them with up to four members; forty have
135,750. A width has types of its own, so a cluster with forty types has far fewer.
"""

from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb

import numpy as np

from weft.model.snapshot import Floats, Ints
from weft.policy.share.candidates import Candidates
from weft.policy.share.guards import Limits, judged

NOBODY = -1


@dataclass(frozen=True, slots=True)
class GroupColumns:
    """Groups of all sizes that passed every guard.

    `members[column, place]` are types, `NOBODY` behind the last one; `worth` is A times the width,
    with each member's part times its weight.
    """

    members: Ints
    gpus: Ints
    worth: Floats

    def __len__(self) -> int:
        return len(self.members)

    @property
    def sizes(self) -> Ints:
        found: Ints = (self.members != NOBODY).sum(axis=1)
        return found

    def counts(self, types: int) -> Ints:
        """How many members of each type a column has."""
        found = np.zeros((len(self), types + 1), np.int64)
        for place in range(self.members.shape[1]):
            np.add.at(found, (np.arange(len(self)), self.members[:, place]), 1)
        return found[:, :types]


def columns_possible(jobs: Candidates, limits: Limits) -> int:
    """How many groups there could be, before any is looked at."""
    _, kinds = np.unique(jobs.types.gpus, return_counts=True)
    sizes = range(1, limits.most_members + 1)
    return sum(comb(int(many) + size - 1, size) for many in kinds for size in sizes)


def group_columns(jobs: Candidates, limits: Limits) -> GroupColumns:
    """All of them; those alone pass unseen, for nobody can keep a job apart from itself."""
    types = jobs.types
    weight = jobs.weight[types.first]
    parts: list[tuple[Ints, Ints, Floats]] = []
    for width in np.unique(types.gpus).tolist():
        here = np.flatnonzero(types.gpus == width)
        for size in range(1, limits.most_members + 1):
            members = _multisets(here, types.count, size)
            found = judged(jobs, members, limits)
            kept = np.ones(len(members), np.bool_) if size == 1 else found.passed
            worth = width * (weight[members] / found.forecast.slowdowns).sum(axis=1)
            padded = np.full((int(kept.sum()), limits.most_members), NOBODY)
            padded[:, :size] = members[kept]
            parts.append((padded, np.full(len(padded), width), worth[kept]))
    return GroupColumns(
        np.concatenate([part[0] for part in parts]).reshape(-1, limits.most_members),
        np.concatenate([part[1] for part in parts]),
        np.concatenate([part[2] for part in parts]),
    )


def _multisets(types: Ints, count: Ints, size: int) -> Ints:
    """Groups of so many of these types; none needs more jobs of a type than there are."""
    chosen = np.array(list(combinations_with_replacement(range(len(types)), size)), np.int64)
    members = types[chosen.reshape(-1, size)]
    enough = np.ones(len(members), np.bool_)
    for place in range(size):
        same = (members == members[:, place : place + 1]).sum(axis=1)
        enough &= same <= count[members[:, place]]
    return members[enough]
