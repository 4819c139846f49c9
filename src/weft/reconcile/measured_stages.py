"""What workers measured of their steps, as the brain takes it."""

from weft.agent.reports.profile import Profile
from weft.model.errors import SpecError
from weft.model.stages import StageProfile


def stages_of(profile: Profile | None, width: int, *, on_gpus: bool) -> StageProfile | None:
    """Of steps at that width; None where there are none, or where they cannot be.

    What a process holds is memory of a GPU only `on_gpus`.
    """
    if profile is None or profile.width != width:
        return None
    try:
        return StageProfile(
            iteration_seconds=profile.step_seconds,
            storage_seconds=profile.storage_seconds,
            cpu_seconds=profile.cpu_seconds,
            gpu_seconds=profile.gpu_seconds,
            network_seconds=profile.network_seconds,
            gpu_memory_bytes=profile.peak_bytes if on_gpus else None,
        )
    except SpecError:
        return None
