"""What cores do to a job whose host curve nobody has stated, as its workers measure it.

Speeds at one width are kept by the cores that each GPU had. As long as no end of the rise has been
seen, a job is believed to gain by twice the cores that it has tried: where cores are idle it is fed
them, and the next measurement tells. What it asked for it is owed in any case, so nothing is tried
at anybody's expense, not even its own.
"""

from weft.brain.event import JobMeasured
from weft.brain.learn.learning import NOTABLE
from weft.brain.learn.reference import reference_speed
from weft.brain.state.brain_state import BrainState
from weft.model.host import HostCurve, PerGpu
from weft.perf.host_samples import HostSamples


def learn_host(state: BrainState, slot: int, event: JobMeasured) -> bool:
    """Learn from a measurement; whether it is worth a round."""
    spec, speed = state.spec(slot), reference_speed(state, slot, event)
    unclaimed = spec.host is None and spec.cpus_per_gpu > 0
    if not unclaimed or not event.cpus or event.gpus <= 0 or not speed:
        return False
    before = state.host_samples.get(slot)
    if before is None or before.gpus != event.gpus:
        before = HostSamples(event.gpus)
    state.host_samples[slot] = found = before.with_one(event.cpus / event.gpus, speed)
    return _learn(state, slot, found.fit().hoped(spec.cpus_per_gpu))


def _learn(state: BrainState, slot: int, curve: HostCurve) -> bool:
    known = state.host_learnt.get(slot)
    if known is not None and all(_alike(known, curve, c) for c in (*known.cores, *curve.cores)):
        return False
    state.learn_host(slot, curve)
    return True


def _alike(one: HostCurve, other: HostCurve, cores: float) -> bool:
    before, after = one.at(PerGpu(cores)), other.at(PerGpu(cores))
    return abs(after - before) <= NOTABLE * before
