"""Real: torch processes that share slots of this machine, and take turns by leases.

A job bound by storage and one bound by computing share one processor, which stands for their GPU.
Beside taking turns, in the same processes and the same minutes: one after the other, and both at
once without any order. Then members and the lease server are killed, and two gangs of two workers
each train on the same two slots.
"""

import os
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.interleaving.members import Company, Kind, Member, company, kill
from benchmarks.row import Row, at_least, at_most, clocked, exactly, told
from benchmarks.runtime.job import Event, say, scratch

SLOT = str(max(os.sched_getaffinity(0)))
STORAGE = Kind(batch=32, read_seconds=0.06, cpus=SLOT)
COMPUTE = Kind(batch=128, cpus=SLOT)
GANG = Kind(batch=8, layers=1, workers=2, cpus="")

STEPS, SHORT_STEPS = 60, 10
REPEATS, SHORT_REPEATS = 5, 1
KILLS, SHORT_KILLS = 5, 1
CYCLES, SHORT_CYCLES = 1_000, 50
BEHIND_SECONDS = 0.05
STEPS_BEHIND = 3
MS = 1e3
TIMES = ("×", "ms", "share", "s", "late turns", "late cycles")

TOGETHER = 1.3
NO_SLOWER = 0.98
"""Turns are a little slower here, where the slot has time to spare: two hundredths are allowed.

With 40 ms of reading, which left the slot hardly any, it was 0.96 to 0.98: handing over takes time.
"""
OVERHEAD = 0.02
DELAY_MS = 50.0


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """A short run is judged by what it counts: seconds need a quiet machine, and many of them."""
    for row in _measured(short=short):
        yield clocked(row, short=short and row.unit in TIMES)


def _measured(*, short: bool) -> Iterator[Row]:
    """Together, what it costs, and what happens when somebody dies."""
    with scratch() as folder, company(folder, (STORAGE, COMPUTE)) as jobs:
        yield from _together(jobs, short=short)
        yield from _overhead(jobs, short=short)
        yield from _deaths(jobs, SHORT_KILLS if short else KILLS)
    with scratch() as folder, company(folder, (GANG, GANG), gpus="0,1") as gangs:
        yield from _gangs(gangs, SHORT_CYCLES if short else CYCLES)


def _together(jobs: Company, *, short: bool) -> Iterator[Row]:
    steps = SHORT_STEPS if short else STEPS
    rounds = [_round(jobs, steps, n) for n in range(SHORT_REPEATS if short else REPEATS)]
    gain = median((one[0] + one[1]) / one[3] for one in rounds)
    yield at_least("one after the other / in turns", gain, "×", TOGETHER)
    versus = median(one[2] / one[3] for one in rounds)
    yield at_least("at once without order / in turns", versus, "×", NO_SLOWER)
    names = ("storage-bound alone", "compute-bound alone", "both without order", "both in turns")
    for place, name in enumerate(names):
        yield told(f"{name}, a step", median(one[place] for one in rounds) / steps * MS, "ms")


def _round(jobs: Company, steps: int, number: int) -> tuple[float, float, float, float]:
    """Seconds of the four kinds; every other time the last comes first."""
    say(f"storage beside computing, {number + 1}")
    in_turns = _in_turns(jobs, steps) if number % 2 else 0.0
    jobs.meet(together=False)
    alone = [jobs.train((one,), steps) for one in (0, 1)]
    at_once = jobs.train((0, 1), steps)
    return alone[0], alone[1], at_once, in_turns or _in_turns(jobs, steps)


def _in_turns(jobs: Company, steps: int) -> float:
    jobs.meet(together=True)
    return jobs.train((0, 1), steps)


def _overhead(jobs: Company, *, short: bool) -> Iterator[Row]:
    """Of one whose company has nothing to do: what it would not spend without any."""
    say("what asking costs")
    jobs.meet(together=True)
    steps, (_, member) = SHORT_STEPS if short else STEPS, jobs.members
    jobs.train((1,), steps)
    made = member.steps()
    asking, cycle = median(one["asking"] for one in made), median(_lengths(made))
    yield at_most("asking and giving back / a cycle", asking / cycle, "share", OVERHEAD)
    jobs.train((0, 1), steps)
    breaches = sum(one["breach"] for m in jobs.members for one in m.steps())
    yield exactly("turns that were not given back in time", breaches, "late turns", 0)


def _deaths(jobs: Company, kills: int) -> Iterator[Row]:
    storage, compute = jobs.members
    for member in jobs.members:
        member.begin(1_000_000)
        member.until_made(SHORT_STEPS)
    delays, usual = [], []
    for number in range(kills):
        say(f"a member is killed, {number + 1}")
        usual.append(_delay(storage, time.monotonic()))
        at = kill(compute.job.pids()[max(compute.job.pids())])
        delays.append(_delay(storage, at))
        _until_more(compute)
    yield at_most("a member is killed: a step of the other is longer", max(delays), "ms", DELAY_MS)
    yield told("… at moments in which nobody is killed", max(usual), "ms")
    yield exactly("its steps lost or made twice", _gaps(storage), "steps", 0)
    yield from _server_dies(jobs, kills)


def _server_dies(jobs: Company, kills: int) -> Iterator[Row]:
    delays, back = [], []
    for number in range(kills):
        say(f"the lease server is killed, {number + 1}")
        server = jobs.server()
        at = kill(server)
        delays.append(max(_delay(member, at) for member in jobs.members))
        jobs.server(but=server)
        _until_granted(jobs, at)
        back.append(min(_granted_after(member, at) for member in jobs.members) - at)
    yield at_most("the server is killed: a step is longer", max(delays), "ms", DELAY_MS)
    yield told("until another hands out leases, median", median(back), "s")
    yield exactly("steps lost or made twice", _gaps(jobs.members[0]), "steps", 0)


def _gangs(gangs: Company, cycles: int) -> Iterator[Row]:
    say("two gangs")
    gangs.meet(together=True)
    for member in gangs.members:
        member.begin(cycles)
    for member in gangs.members:
        member.until_made(cycles, GANG.workers)
    pairs = [pair for member in gangs.members for pair in _pairs(member)]
    leased = [pair for pair in pairs if all(one["granted"] for one in pair)]
    yield at_least("cycles of two gangs of two", len(leased), "cycles", 2 * cycles * 0.99)
    parts = sum(len({one["granted"] for one in pair}) > 1 for pair in leased)
    yield exactly("in which a part of a gang had its turn", parts, "cycles", 0)
    inside = sum(min(o["met"] for o in pair) < max(o["granted"] for o in pair) for pair in leased)
    yield exactly("in which a lease was waited for inside a collective", inside, "cycles", 0)
    breaches = sum(one["breach"] for pair in pairs for one in pair)
    yield exactly("in which somebody waited up to its bound", breaches, "late cycles", 0)


def _pairs(member: Member) -> list[list[Event]]:
    """The two workers' lines of each step."""
    by_step: dict[int, list[Event]] = {}
    for line in member.steps():
        by_step.setdefault(line["step"], []).append(line)
    return [pair for pair in by_step.values() if len(pair) == GANG.workers]


def _lengths(made: Sequence[Event]) -> list[float]:
    return [after["ended"] - before["ended"] for before, after in pairwise(made)]


def _delay(member: Member, at: float) -> float:
    """By how much a step that was under way, or the next, exceeds the usual one: milliseconds.

    What comes later is another member's start, which computes on the slot before it has any turn.
    """
    member.until(lambda: sum(one["ended"] > at for one in member.steps()) >= STEPS_BEHIND)
    ended = [float(one["ended"]) for one in member.steps()]
    around = [b - a for a, b in pairwise(ended) if a < at + BEHIND_SECONDS and b > at]
    usual = median(b - a for a, b in pairwise(ended) if b < at)
    return max(max(around) - usual, 0.0) * MS


def _until_more(member: Member) -> None:
    """It trains again."""
    member.until_made(len(member.steps()) + SHORT_STEPS)


def _until_granted(jobs: Company, at: float) -> None:
    for member in jobs.members:
        member.until(partial(_granted_after, member, at))


def _granted_after(member: Member, at: float) -> float:
    grants = [float(one["granted"] or 0.0) for one in member.steps()]
    return min((grant for grant in grants if grant > at), default=0.0)


def _gaps(member: Member) -> int:
    """Steps of a round that do not follow the one before."""
    numbers = [one["step"] for one in member.steps()]
    return sum(after != before + 1 for before, after in pairwise(numbers))
