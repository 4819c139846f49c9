"""Where the time of a job's steps goes, from what its workers measured while it was alone.

A profile belongs to a program at a width. It is kept for the next run of the program, so that only
the first one has to run alone before anybody can say whose company it could bear. What is measured
goes before what was claimed. A profile is a name as well, under which is remembered what parties
really do, so it changes only where it has drifted.
"""

from dataclasses import dataclass, replace

from weft.brain.event import JobMeasured
from weft.brain.state.brain_state import BrainState
from weft.model.claim import ClaimSource, StageClaim
from weft.model.request import JobRequest
from weft.model.stages import StageProfile
from weft.perf.history import History

LATEST = 4
"""Of so many runs of a program, which may have had different widths."""

DRIFT = 0.1
"""A part of the step; below it nothing has changed."""

MOST_SLOWER = 1.5
"""What turns on the same GPUs may make of a step, waits aside; Muri's authors measured 1.33 to 1.5.
"""


@dataclass(frozen=True, slots=True)
class StagesSeen:
    """What one run showed, at the width that it asked for."""

    gpus: int
    profile: StageProfile


StageHistory = History[StagesSeen]


def recall(state: BrainState, slot: int, history: StageHistory) -> None:
    """A job is like the last run of its program, whatever it claims."""
    spec = state.spec(slot)
    if not spec.shareable:
        return
    for seen in reversed(history.of(spec.tenant, spec.program)):
        if seen.gpus == spec.width.asked_gpus:
            _believe(state, slot, _holding(seen.profile, spec.stages))
            return


def hear_stages(state: BrainState, slot: int, event: JobMeasured, history: StageHistory) -> bool:
    """Take in what was measured at the asked width; whether it is another than was believed."""
    spec, profile = state.spec(slot), event.stages
    if profile is None or event.gpus != spec.width.asked_gpus or not event.gpus:
        return False
    profile = _holding(_rounded(profile), spec.stages)
    if spec.stages is not None and _alike(spec, profile):
        if spec.stages.source is not ClaimSource.MEASURED:
            _learn(state, slot, event.gpus, spec.stages.profile, history)
        return False
    _learn(state, slot, event.gpus, profile, history)
    return spec.shareable


def hear_in_turns(state: BrainState, slot: int, event: JobMeasured) -> bool:
    """Take in what was measured in company, unless the claim would look like that there.

    All of a job's stages may take longer beside others, and a job that claims right things is not
    believed less for that. How much longer is not known, so what was measured is taken as it is.
    """
    spec, seen = state.spec(slot), event.stages_in_turns
    claim = spec.stages
    if seen is None or claim is None or claim.source is ClaimSource.MEASURED:
        return False
    if event.gpus != spec.width.asked_gpus or not state.seating.company.shares(slot):
        return False
    slower = seen.iteration_seconds / claim.profile.iteration_seconds
    seen = _holding(seen, claim)
    if _alike(spec, seen.scaled(1.0 / min(max(slower, 1.0), MOST_SLOWER))):
        return False
    _believe(state, slot, _rounded(seen), ClaimSource.IN_TURNS)
    return True


def _learn(
    state: BrainState, slot: int, gpus: int, profile: StageProfile, history: StageHistory
) -> None:
    """For this run, and for those of its program that come."""
    spec = state.spec(slot)
    _believe(state, slot, profile)
    history.add(spec.tenant, spec.program, StagesSeen(gpus, profile))


def _alike(spec: JobRequest, profile: StageProfile) -> bool:
    assert spec.stages is not None
    known = spec.stages.profile
    if known.gpu_memory_bytes is None and profile.gpu_memory_bytes is not None:
        return False
    if (profile.gpu_memory_bytes or 0) > (known.gpu_memory_bytes or 0):
        return False
    both = zip(
        (known.iteration_seconds, *known.stages_seconds),
        (profile.iteration_seconds, *profile.stages_seconds),
        strict=True,
    )
    return all(abs(new - old) <= DRIFT * profile.iteration_seconds for old, new in both)


def _holding(profile: StageProfile, known: StageClaim | None) -> StageProfile:
    """With no less memory than was claimed, or measured before: its peak may be yet to come."""
    before = None if known is None else known.profile.gpu_memory_bytes
    if before is None or (profile.gpu_memory_bytes or 0) >= before:
        return profile
    return replace(profile, gpu_memory_bytes=before)


def _believe(
    state: BrainState, slot: int, profile: StageProfile, source: ClaimSource = ClaimSource.MEASURED
) -> None:
    spec = replace(state.spec(slot), stages=StageClaim(profile, source))
    state.specs[slot] = spec
    state.jobs.shareable[slot] = spec.shareable and spec.width.asked_gpus > 0


def _rounded(profile: StageProfile) -> StageProfile:
    """Two digits, so that runs of one program are of one kind; memory up to whole 64 MiB."""
    held, block = profile.gpu_memory_bytes, 1 << 26
    whole = None if held is None else -(-held // block) * block
    return replace(profile.timed(_digits), gpu_memory_bytes=whole)


def _digits(seconds: float) -> float:
    return float(f"{seconds:.2g}")
