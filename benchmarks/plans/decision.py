"""Decision: what a round costs that chooses widths, plans and cores of all jobs.

Jobs of Rubick's models come in a stream and are never done, so queues are long. Times are of whole
rounds by the process's own clock, bids and seats among them; the program's answer is held against
the bound of its relaxation. The same rounds are played twice and must decide the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.plans.workloads import jobs, lines, nodes
from benchmarks.row import Row, at_most, clocked, exactly, told
from weft.brain.brain import Brain
from weft.brain.event import InstructionDone, JobSubmitted, NodeAdded, Tick, Verb
from weft.brain.instruction import Instruction, Start
from weft.brain.round.replan import Replan
from weft.brain.round.session import Session
from weft.model.job import Job
from weft.policy.plans.greedy import greedily
from weft.policy.plans.program import solved
from weft.policy.recipes import RECIPES

PERCENTILE = 95.0
WAVES, SHORT_WAVES = 20, 6


@dataclass(frozen=True, slots=True)
class Size:
    """A cluster, its jobs, and the bar for a round."""

    gpus: int
    jobs: int
    seconds: float


SIZES = (Size(64, 100, 0.5), Size(2_048, 1_000, 10.0))


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    for size in SIZES[:1] if short else SIZES:
        given = crowd(traces, size)
        for exact in (False, True):
            yield from _of(size, given, exact=exact, short=short)


def crowd(traces: Path, size: Size) -> list[Job]:
    """As many jobs as there are to be, with other names where the list is too short."""
    known = jobs(traces, lines(traces, "mt"))
    chance = np.random.default_rng(5)
    chosen = [known[row] for row in chance.integers(len(known), size=size.jobs)]
    return [
        Job(replace(one.request, id=f"{one.id}/{number}", submit_seconds=0.0), one.truth)
        for number, one in enumerate(chosen)
    ]


def _of(size: Size, given: list[Job], *, exact: bool, short: bool) -> Iterator[Row]:
    waves = SHORT_WAVES if short else WAVES
    how = "program" if exact else "greedy"
    what = f"{size.gpus:,} GPUs, {size.jobs:,} jobs, {how}"
    seconds, decided, gaps = played(size, given, exact=exact, waves=waves)
    again = played(size, given, exact=exact, waves=waves)[1]
    p95 = float(np.percentile(seconds, PERCENTILE))
    row = at_most(f"{what}: a round, 95th percentile", p95, "s", size.seconds)
    yield clocked(row, short=short)
    yield told(f"{what}: … longest", max(seconds), "s")
    yield exactly(
        f"{what}: rounds that decide otherwise when played again", _unlike(decided, again), "", 0
    )
    yield told(f"{what}: gap to the bound, mean", 100.0 * float(np.mean(gaps)), "%")
    yield told(f"{what}: gap to the bound, widest", 100.0 * max(gaps), "%")


def _unlike(one: list[list[Instruction]], other: list[list[Instruction]]) -> int:
    return sum(mine != yours for mine, yours in zip(one, other, strict=True))


def played(
    size: Size, given: list[Job], *, exact: bool, waves: int
) -> tuple[list[float], list[list[Instruction]], list[float]]:
    """Seconds, instructions and gaps of a round after each wave of arrivals."""
    brain = Brain(RECIPES["rubick"](exact=exact, spacing=0.0))
    for node in nodes(size.gpus):
        brain.handle(NodeAdded(0.0, node))
    seconds, decided, gaps = [], [], []
    for wave, part in enumerate(np.array_split(np.arange(len(given)), waves), start=1):
        at = 7200.0 * wave
        for row in part.tolist():
            brain.handle(JobSubmitted(at, given[row].request))
        gaps.append(gap(brain, at))
        begin = process_time()
        decided.append(brain.handle(Tick(at + 1.0)))
        seconds.append(process_time() - begin)
        for said in decided[-1]:
            if isinstance(said, Start):
                brain.handle(InstructionDone(at + 30.0, said.job, said.epoch, Verb.START))
    return seconds, decided, gaps


def gap(brain: Brain, at: float) -> float:
    """Of what this brain's recipe would choose now, to the bound of the relaxation."""
    planning = brain.recipe.planning
    assert planning is not None
    bids, market = Replan(Session(brain.state, at, brain.recipe), planning).asked(
        brain.state.running_slots().tolist()
        + [slot for slot in brain.state.slot_of.values() if brain.state.jobs.state[slot] == 0]
    )
    found = solved(bids, market, planning, greedily(bids, market, planning))
    if planning.exact:
        return found.gap
    greedy = greedily(bids, market, planning)
    worth = sum(
        planning.worth(bid, greedy[bid.slot], market.restart_seconds)
        for bid in bids
        if bid.slot in greedy
    )
    return max(1.0 - worth / found.bound, 0.0) if found.bound else 0.0
