"""Tasting: what cores do to a job whose host curve nobody has stated, as its workers measure it.

Speeds at one width are kept by the cores that each GPU had. As long as no end of the rise has been
seen, a job is believed to gain by twice the cores that it has tried: where cores are idle it is fed
them, and the next measurement tells. What it asked for it is owed in any case, so nothing is tried
at anybody's expense, not even its own.
"""

from weft.brain.event import JobMeasured
from weft.brain.learning import NOTABLE
from weft.brain.state import BrainState
from weft.model.host import HostCurve, PerGpu
from weft.perf.taste import Taste


def taste(state: BrainState, slot: int, event: JobMeasured) -> bool:
    """Learn from a measurement; whether it is worth a round."""
    stated = state.spec(slot).host
    if stated is None or stated.known or not event.cpus or event.units_per_second <= 0:
        return False
    before = state.tastes.get(slot)
    if before is None or before.gpus != event.gpus:
        before = Taste(event.gpus)
    state.tastes[slot] = found = before.with_one(event.cpus / event.gpus, event.units_per_second)
    return _learn(state, slot, found.fit().hoped(state.spec(slot).cpus_per_gpu))


def _learn(state: BrainState, slot: int, curve: HostCurve) -> bool:
    known = state.tasted.get(slot)
    if known is not None and all(_alike(known, curve, c) for c in (*known.cores, *curve.cores)):
        return False
    state.learn_host(slot, curve)
    return True


def _alike(one: HostCurve, other: HostCurve, cores: float) -> bool:
    before, after = one.at(PerGpu(cores)), other.at(PerGpu(cores))
    return abs(after - before) <= NOTABLE * before
