"""AFS, apathetic future share (Hwang and others, NSDI 2021): who gets the next GPU.

Two jobs compete for one GPU. Job j would run at speed p_j with what it has and at p'_j with one GPU
more, and at its present speed has L_j seconds left. Let a be the one that ends first. If a gets the
GPU it ends at w_a / p'_a and hands on that one GPU, nothing else: whoever arrives by then will take
the rest of its share (that is the apathy). If b gets it, a ends at w_a / p_a and b runs at p'_b all
along. The two sums of completion times differ, and

    the shorter job wins  unless  s_long > r_short,
    where  r_j = p'_j / p_j − 1  is what j would gain
    and    s_j = 1 − p_j / p'_j  is what j would miss, as a share of what it could have.

The amounts of work have cancelled: lengths matter by their order alone. As s_j <= r_j, each job is
an interval [s_j, r_j]. Of two intervals that do not touch the upper one wins, however long the jobs
are; of two that overlap the shorter job wins.

Among many jobs that relation has cycles. With r of 0.30, 0.35 and 0.50 for jobs C, B, A of rising
length, s is 0.23, 0.26 and 0.33: C beats B and B beats A as the shorter ones, and A beats C because
A would miss more than C would gain. A scan that keeps a champion then picks by the order in which
jobs are stored. So the rule is applied to all at once:

    S = max_j s_j,   U = {j : r_j >= S},   the winner is the shortest job of U.

Every interval in U reaches from below S to S or above, so all of U overlap and the shortest of them
beats the others; every job outside U lies wholly below the one that attains S. A job that nobody
beats has nothing wholly above it, so it is in U, and must be its shortest: where such a job exists,
this rule finds it, and where none exists it does not depend on the order of jobs. Ties go to the
job that was submitted first.

`Afs(lengths_known=False)`, the paper's AFS-P, knows no lengths. Outside U the verdict does not need
them, within U it would: there the job with the least attained service wins, by levels that double
where `coarse`. When lengths are known, jobs of unknown length count as the longest, and among
themselves again by attained service.

The hand-out goes by phases. r and s depend on the ladder and the rung alone, so S is found over the
rungs that somebody stands on, and whole rungs enter U. While one of those who attain S still stands
there, S and with it U stay as they are, and the members of U are served in order of length. On a
concave ladder of single GPUs nobody is served twice in a phase: with the increments d1 >= d2 of two
GPUs, r after the climb is d2 / p' <= d1 / p' = s <= S. Where a curve is not concave S may rise
again; members of U that are no longer in it are then sent back when their turn comes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from weft.model.snapshot import Floats, Ints
from weft.policy.service import service_level
from weft.policy.size.climb import Climb, Climbing
from weft.policy.size.width_ladder import EQUAL, Ladders
from weft.policy.supply import Purse

Member = tuple[float, int, int]
"""A job in a heap: its length, its place among equals, its row."""

RUNGS_PER_JOB = 8
"""Up to here it pays to turn the columns of ladders into lists, which are quicker to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Afs(Climbing):
    """`afs-l`, or `afs-p` for jobs whose lengths are not known."""

    lengths_known: bool = True
    coarse: bool = False

    def climbed(self, climb: Climb, purse: Purse) -> Ints:
        return _Handout(climb, *self._lengths(climb), purse=purse).handed_out()

    def _lengths(self, climb: Climb) -> tuple[Floats, Ints, bool]:
        """What jobs are compared by, the order of equals, and whether climbing shortens it."""
        if not self.lengths_known:
            served = service_level(climb.attained) if self.coarse else climb.attained
            return served, ranks(climb.seq), False
        unknown = np.isnan(climb.work)
        return (
            np.where(unknown, np.inf, climb.work),
            ranks(climb.seq, np.where(unknown, climb.attained, 0.0)),
            True,
        )


def ranks(*keys: Ints | Floats) -> Ints:
    """The place of each row when sorted; the last key counts most."""
    ranks = np.empty(len(keys[0]), np.int64)
    ranks[np.lexsort(keys)] = np.arange(len(ranks))
    return ranks


class _Handout:
    """Jobs on rungs: those in U as a heap by length, the others by the rung on which they wait.

    `standing` counts the jobs on each rung; `tops` has the rungs by s and `outside` by r, greatest
    first. A rung that costs more than is left in its pool is out for good with all who stand on it,
    and is dropped where it is met.
    """

    def __init__(
        self, climb: Climb, length: Floats, rank: Ints, shortening: bool, *, purse: Purse
    ) -> None:
        self._purse, self._left = purse, purse.left
        self._pool: Sequence[int] = climb.pool.data
        self._cost, self._gain, self._loss, self._speed = _readable(climb.ladders, len(rank))
        self._length, self._shortening = length.tolist(), shortening
        self._rungs: list[int] = climb.first.tolist()
        self._standing = [0] * len(self._cost)
        self._waiting: dict[int, list[Member]] = {rung: [] for rung in self._rungs}
        for rung, member in zip(self._rungs, self._members(climb, length, rank), strict=True):
            self._standing[rung] += 1
            self._waiting[rung].append(member)
        self._tops = [(-self._loss[rung], rung) for rung in self._waiting]
        self._outside = [(-self._gain[rung], rung) for rung in self._waiting]
        heapify(self._tops)
        heapify(self._outside)
        self._inside: list[Member] = []

    def handed_out(self) -> Ints:
        """The rung of each job when all is handed out, or nobody can have more."""
        while (top := self._top()) is not None:
            greatest = self._loss[top]
            level = greatest - EQUAL * abs(greatest)
            self._let_in(level)
            self._phase(top, level)
        return np.array(self._rungs, np.int64)

    def _members(self, climb: Climb, length: Floats, rank: Ints) -> Iterator[Member]:
        if self._shortening:
            speed = climb.ladders.speed[climb.first]
            length = np.divide(length, speed, out=np.full_like(length, np.inf), where=speed > 0)
        return zip(length.tolist(), rank.tolist(), range(len(rank)), strict=True)

    def _top(self) -> int | None:
        """The rung whose s is S."""
        tops, standing, cost, left = self._tops, self._standing, self._cost, self._left
        while tops:
            rung = tops[0][1]
            if standing[rung] and cost[rung] <= left[self._pool[rung]]:
                return rung
            heappop(tops)
        return None

    def _let_in(self, level: float) -> None:
        """Every rung whose r has come to reach S."""
        outside, inside, waiting = self._outside, self._inside, self._waiting
        while outside and -outside[0][0] >= level:
            for member in waiting.pop(heappop(outside)[1]):
                heappush(inside, member)

    def _phase(self, top: int, level: float) -> None:
        """Serve the members of U while S stays."""
        inside, standing, cost, rungs = self._inside, self._standing, self._cost, self._rungs
        left, pool, pay = self._left, self._pool, self._purse.pay
        greatest = self._loss[top]
        while standing[top] and cost[top] <= left[pool[top]]:
            member = heappop(inside)
            rung = rungs[member[2]]
            if cost[rung] > left[pool[rung]]:
                continue
            if self._gain[rung] < level:
                self._wait(rung, member)
                continue
            standing[rung] -= 1
            pay(pool[rung], cost[rung])
            rungs[member[2]] = rung = rung + 1
            if cost[rung] <= left[pool[rung]]:
                self._stand(rung, member, level)
                if self._loss[rung] > greatest:
                    break

    def _stand(self, rung: int, member: Member, level: float) -> None:
        """On a new rung, in U or out of it."""
        if not self._standing[rung]:
            heappush(self._tops, (-self._loss[rung], rung))
        self._standing[rung] += 1
        if self._shortening:
            _, rank, row = member
            member = (self._length[row] / self._speed[rung], rank, row)
        if self._gain[rung] < level:
            self._wait(rung, member)
        else:
            heappush(self._inside, member)

    def _wait(self, rung: int, member: Member) -> None:
        members = self._waiting.get(rung)
        if members is None:
            self._waiting[rung] = [member]
            heappush(self._outside, (-self._gain[rung], rung))
        else:
            members.append(member)


def _readable(ladders: Ladders, jobs: int) -> tuple[Sequence[int], ...]:
    """Cost, gain, loss and speed to be read one by one: lists, or views where most stay unread."""
    columns = ladders.cost, ladders.gain, ladders.loss, ladders.speed
    if len(ladders.cost) <= RUNGS_PER_JOB * jobs:
        return tuple(column.tolist() for column in columns)
    return tuple(column.data for column in columns)
