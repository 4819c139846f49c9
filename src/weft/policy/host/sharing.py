"""Sharing out: what is left of the nodes beside the GPUs goes where it speeds most.

Everybody has the floor already. Then rung after rung is sold to the job that gains most speed per
dominant share of a node, as long as all nodes that the job sits on have it: a job is as fast as its
slowest worker. Whoever finds no room for a whole rung takes what there is room for. The result does
not hang on the order in which the claims come: ties go by their keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from weft.model.host import PerGpu
from weft.model.snapshot import Floats
from weft.policy.host.core_ladder import ROUNDING, Ladder, Rung


@dataclass(frozen=True, slots=True)
class Claim:
    """A job that could use more: its GPUs by node row, and what it would use."""

    key: int
    gpus: tuple[tuple[int, int], ...]
    ladder: Ladder


def share_out(claims: Sequence[Claim], cores: Floats, memory_gib: Floats) -> dict[int, Rung]:
    """Where each claim ends up, by key, given what the nodes have left beyond all floors."""
    left = _Left(cores.copy(), memory_gib.copy())
    found = {claim.key: claim.ladder.floor for claim in claims}
    heap = [entry for claim in claims if (entry := _next_step(claim, 0))]
    heapify(heap)
    while heap:
        _, key, climbed, claim = heappop(heap)
        have, rung = found[key], claim.ladder.rungs[climbed]
        if left.has(claim, have, rung):
            left.take(claim, have, rung)
            found[key] = rung
            entry = _next_step(claim, climbed + 1)
            if entry:
                heappush(heap, entry)
        else:
            part = claim.ladder.within(left.reach(claim, have))
            if part.speed > have.speed + ROUNDING:
                left.take(claim, have, part)
                found[key] = part
    return found


_Step = tuple[float, int, int, Claim]


def _next_step(claim: Claim, climbed: int) -> _Step | None:
    """Best first: the speed gained, relative to the floor's, for what it costs."""
    rungs, floor = claim.ladder.rungs, claim.ladder.floor
    if climbed >= len(rungs):
        return None
    before, after = rungs[climbed - 1] if climbed else floor, rungs[climbed]
    gain = (after.speed - before.speed) / max(floor.speed, ROUNDING)
    return -gain / max(after.price - before.price, ROUNDING), claim.key, climbed, claim


class _Left:
    """What the nodes still have."""

    def __init__(self, cores: Floats, memory_gib: Floats) -> None:
        self._cores, self._memory_gib = cores, memory_gib

    def has(self, claim: Claim, have: Rung, wanted: Rung) -> bool:
        more_cores, more_memory = _difference(have, wanted)
        return all(
            more_cores * gpus <= self._cores[node] + ROUNDING
            and more_memory * gpus <= self._memory_gib[node] + ROUNDING
            for node, gpus in claim.gpus
        )

    def reach(self, claim: Claim, have: Rung) -> PerGpu:
        """The most that each of its GPUs could have."""
        cores = min(float(self._cores[node]) / gpus for node, gpus in claim.gpus)
        memory = min(float(self._memory_gib[node]) / gpus for node, gpus in claim.gpus)
        return PerGpu(have.host.cores + cores, have.host.memory_gib + memory)

    def take(self, claim: Claim, have: Rung, wanted: Rung) -> None:
        more_cores, more_memory = _difference(have, wanted)
        for node, gpus in claim.gpus:
            self._cores[node] -= more_cores * gpus
            self._memory_gib[node] -= more_memory * gpus


def _difference(have: Rung, wanted: Rung) -> tuple[float, float]:
    return wanted.host.cores - have.host.cores, wanted.host.memory_gib - have.host.memory_gib
