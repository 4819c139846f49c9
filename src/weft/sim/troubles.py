"""What is wrong in a world, which only the world knows: with programs, with nodes, with services.

A truth like a job's length: the brain learns of it by ends that have a line to show, and by what
comes back when a node is checked or a service is asked. All draws are by name, so what ails one job
does not depend on the others, and a run that was found in flight ends as it would have.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf, log
from typing import Final, NamedTuple

from weft.failure.diagnosis import Diagnosis, Ranks, diagnose
from weft.failure.lines import Line, Stream
from weft.failure.rulebook import shipped
from weft.model.ids import JobId, NodeId
from weft.model.trial import tried_by
from weft.sim.chance import Chance
from weft.sim.run import Run

Said = tuple[Stream, str]

FIRST_EPOCH: Final = 1
CHECK_SECONDS: Final = 60.0
PEOPLE_SECONDS: Final = 86_400.0
"""Within a day somebody looks at a node that is set aside, be something wrong with it or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ailment:
    """What is wrong with a job itself: after so long it ends, and leaves these lines.

    `again` is the chance that a later try ends so too. Where it is 1, nothing but its owner can
    help: it ends at the same place of its work each time, however much of it was saved.
    `needs_gpus` is the fewest GPUs on which it shows: with fewer the job runs on.
    """

    lines: tuple[Said, ...]
    after_seconds: float
    again: float = 1.0
    needs_gpus: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BadNode:
    """From `begin` to `end` a share of the runs that touch it fail, some time after their start.

    A check finds it bad, unless it is one of those that only fail under a job.
    """

    node: NodeId
    lines: tuple[Said, ...]
    begin_seconds: float = 0.0
    end_seconds: float = inf
    share: float = 1.0
    after_seconds: float = 300.0
    passes_checks: bool = False

    def is_bad(self, at: float) -> bool:
        return self.begin_seconds <= at < self.end_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A service that a share of all jobs needs does not answer for a while.

    Whoever runs then meets it within `within_seconds`.
    """

    service: str
    lines: tuple[Said, ...]
    begin_seconds: float
    end_seconds: float
    share: float = 1.0
    within_seconds: float = 600.0

    def is_down(self, at: float) -> bool:
        return self.begin_seconds <= at < self.end_seconds


class Mishap(NamedTuple):
    """An end that is to come: when, what is left of it, and whose word it is."""

    at: float
    lines: tuple[Said, ...]
    node: NodeId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Troubles:
    """All that is wrong; `looked_into` says whether ends are reported with what was found."""

    ailments: Mapping[JobId, Ailment] = field(default_factory=dict)
    bad_nodes: tuple[BadNode, ...] = ()
    outages: tuple[Outage, ...] = ()
    looked_into: bool = True
    until_seconds: float = inf

    @property
    def none(self) -> bool:
        return not (self.ailments or self.bad_nodes or self.outages)

    def next_end(self, run: Run, chance: Chance) -> Mishap | None:
        """The first that comes of this run, if nothing else ends it before."""
        ends = (*self._own(run, chance), *self._by_nodes(run, chance), *self._outs(run, chance))
        first = min(ends, key=lambda one: one.at, default=None)
        return first if first is not None and first.at < self.until_seconds else None

    def passes(self, node: NodeId, at: float) -> bool:
        """What a check of the node finds."""
        return not any(
            bad.node == node and bad.is_bad(at) and not bad.passes_checks for bad in self.bad_nodes
        )

    def is_repaired(self, node: NodeId, at: float) -> bool:
        """Whether people have seen to what was wrong with it."""
        return any(bad.node == node and bad.end_seconds <= at for bad in self.bad_nodes)

    def answers(self, service: str, at: float) -> bool:
        return not any(one.service == service and one.is_down(at) for one in self.outages)

    def found(self, mishap: Mishap, run: Run) -> Diagnosis | None:
        """What somebody finds who looks into it; None where nobody does."""
        if not self.looked_into:
            return None
        seats = run.placement.seats
        ranks = {rank: seat.node for rank, seat in enumerate(seats)}
        rank = next((rank for rank, node in ranks.items() if node == mishap.node), 0)
        lines = [_line(said, ranks[rank], rank) for said in mishap.lines]
        return diagnose(lines, shipped(), Ranks(ranks, {}))

    def _own(self, run: Run, chance: Chance) -> Iterator[Mishap]:
        ill = self.ailments.get(tried_by(run.job.id))
        if ill is None or run.placement.width < ill.needs_gpus:
            return
        if ill.again >= 1.0:
            yield Mishap(_reaches(run, ill.after_seconds), ill.lines)
            return
        later = run.epoch > FIRST_EPOCH
        if not later or chance.uniform("ails", run.job.id, run.epoch) < ill.again:
            yield Mishap(run.begun + ill.after_seconds, ill.lines)

    def _by_nodes(self, run: Run, chance: Chance) -> Iterator[Mishap]:
        for bad in self.bad_nodes:
            who = ("bad node", bad.node, run.job.id, run.epoch)
            if bad.node in run.placement.nodes and chance.uniform(*who) < bad.share:
                drawn = -log(1.0 - chance.uniform("after", *who))
                at = max(run.begun, bad.begin_seconds) + bad.after_seconds * drawn
                if at < bad.end_seconds:
                    yield Mishap(at, bad.lines, bad.node)

    def _outs(self, run: Run, chance: Chance) -> Iterator[Mishap]:
        for outage in self.outages:
            needs = chance.uniform("needs", outage.service, run.job.id) < outage.share
            if needs and run.begun < outage.end_seconds:
                drawn = chance.uniform("meets", outage.service, run.job.id, run.epoch)
                at = max(run.begun, outage.begin_seconds) + outage.within_seconds * drawn
                if at < outage.end_seconds:
                    yield Mishap(at, outage.lines)

    def unexplained(self) -> "Troubles":
        """The same in a world that reports an exit status and nothing else."""
        return replace(self, looked_into=False)


def _reaches(run: Run, seconds: float) -> float:
    """When it has done what takes so long at the width that it asked for."""
    truth = run.job.truth
    pace = truth.units_per_second(truth.asked_gpus) if truth.asked_gpus else 1.0
    left = max(seconds * pace - run.done, 0.0)
    return max(run.foreseen, run.mark) + left / run.speed if run.speed > 0 else inf


def _line(said: Said, node: NodeId, rank: int) -> Line:
    stream, text = said
    return Line(text, stream, None, node, rank)


NO_TROUBLES: Final = Troubles()
