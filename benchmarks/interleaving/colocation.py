"""Co-location: who is put beside whom by chance, and whether somebody's memory runs out.

Gavel's authors ran every two of 26 programs together on three kinds of GPUs; where memory ran out
they recorded no speed. What each program needs is taken to be the least with which every pair that
failed would have failed, and the pairs judge: a party with one of them in it is a party in which a
neighbour was killed. Drawn parties are judged by the sum of what their members really take. One in
five says nothing of its memory.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.optimize import linprog

from benchmarks.interleaving.stages import measured
from benchmarks.row import Row, exactly, told
from weft.model.snapshot import Floats
from weft.model.stages import StageProfile
from weft.perf.interleaving.experience import Experience
from weft.policy.share.guards import CONTEXT_GIB, Limits
from weft.policy.share.joining import Guest, Parties

GPUS_GIB = {"k80": 12.0, "p100": 16.0, "v100": 16.0}
DRAWS, SHORT_DRAWS = 10_000, 500
SILENT = 0.2
MARGIN_GIB = 0.01
FAILED = [0.0, 0.0]


@dataclass(frozen=True, slots=True)
class Fleet:
    """Programs on one kind of GPU: what each takes at its peak, and which pairs ran out of it."""

    gpu_gib: float
    needs_gib: Floats
    failing: frozenset[tuple[int, int]]

    def kills(self, party: Sequence[int]) -> bool:
        """Whether a member of this party would be killed."""
        pairs = {(min(a, b), max(a, b)) for a, b in combinations(party, 2)}
        taken = sum(self.needs_gib[one] + CONTEXT_GIB for one in party)
        return bool(pairs & self.failing) or taken > self.gpu_gib


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    draws = SHORT_DRAWS if short else DRAWS
    chance = np.random.default_rng(20)
    profiles = [row.profile for row in measured(traces) if row.gpus == 1]
    fleets = [gavel(traces, kind) for kind in GPUS_GIB] + [drawn(chance) for _ in range(3)]
    found = [_joined(fleets[draw % len(fleets)], profiles, chance) for draw in range(draws)]
    killed = sum(int(fleet.kills(party)) for fleet, party, _ in found)
    silent = sum(len(party) > 1 and bool(quiet & set(party)) for _, party, quiet in found)
    yield exactly(f"{draws:,} co-locations: members killed for memory", killed, "", 0)
    yield exactly("… parties with a member of unknown memory", silent, "", 0)
    yield told("… in which somebody joined", sum(len(party) > 1 for _, party, _ in found), "")


def _joined(
    fleet: Fleet, profiles: Sequence[StageProfile], chance: np.random.Generator
) -> tuple[Fleet, list[int], set[int]]:
    """One GPU, one who sits there, and three who come by, one after the other."""
    programs = chance.choice(len(fleet.needs_gib), 4, replace=False).tolist()
    quiet = {one for one in programs if chance.random() < SILENT}
    guests = [_guest(fleet, one, quiet, profiles, chance) for one in programs]
    parties = Parties([guests[:1]], [fleet.gpu_gib], Limits(), Experience())
    party = programs[:1]
    for program, guest in zip(programs[1:], guests[1:], strict=True):
        if parties.best(guest, np.ones(1, bool)) is not None:
            parties.join(0, guest)
            party.append(program)
    return fleet, party, quiet


def _guest(
    fleet: Fleet,
    program: int,
    quiet: set[int],
    profiles: Sequence[StageProfile],
    chance: np.random.Generator,
) -> Guest:
    needs = None if program in quiet else int(fleet.needs_gib[program] * 2**30)
    profile = profiles[int(chance.integers(len(profiles)))]
    return Guest(replace(profile, gpu_memory_bytes=needs), cap=np.inf)


def gavel(traces: Path, kind: str) -> Fleet:
    """The programs of one GPU in its table."""
    table = json.loads((traces / "gavel" / "simulation_throughputs.json").read_text())[kind]
    programs = [name for name in table if name.endswith(", 1)")]
    pairs = [
        (a, b)
        for a, b in combinations(range(len(programs)), 2)
        if table[programs[a]].get(programs[b]) == FAILED
    ]
    gpu_gib = GPUS_GIB[kind]
    return Fleet(gpu_gib, _least_needs(len(programs), pairs, gpu_gib), frozenset(pairs))


def _least_needs(programs: int, failing: Sequence[tuple[int, int]], gpu_gib: float) -> Floats:
    """The smallest memory of each with which all of these pairs ran out of a GPU's."""
    if not failing:
        return np.zeros(programs)
    uses = np.zeros((len(failing), programs))
    for row, (a, b) in enumerate(failing):
        uses[row, a] += 1.0
        uses[row, b] += 1.0
    beyond = gpu_gib + MARGIN_GIB - 2.0 * CONTEXT_GIB
    found = linprog(np.ones(programs), A_ub=-uses, b_ub=np.full(len(failing), -beyond))
    return np.asarray(found.x, np.float64)


def drawn(chance: np.random.Generator) -> Fleet:
    """Thirty programs on a GPU of 40 GB, from a gigabyte to nearly all of it."""
    needs = np.exp(chance.uniform(0.0, np.log(38.0), 30))
    return Fleet(40.0, needs, frozenset())
