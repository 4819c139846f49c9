"""Whether a job gives way to others: not before it could go on from something.

A script that saves nothing begins from nothing each time it is stopped. So it is not stopped for
another user's gain, unless its owner has agreed: by `preemptible: true`, written out, by saying
under `checkpoint` that it saves, or by `shareable`, since company ends with a stop. One that has
been seen to save gives way like any other. Nobody is spared for ever: whoever has run for as long
as the machine protects gives way too.
"""

from weft.local.record.entry import Progress
from weft.spec.job_file import JobSpec

HOUR_SECONDS = 3_600.0


def has_agreed(spec: JobSpec) -> bool:
    """Whether the owner has said that it may be stopped, or that it saves."""
    said = "preemptible" in spec.model_fields_set or spec.checkpoint is not None
    return spec.preemptible and (said or spec.shareable)


def can_go_on(progress: Progress) -> bool:
    """Whether a later start has something to go on from; what trains live saves when asked."""
    return progress.saved_step is not None or progress.live is True


def gives_way(
    spec: JobSpec, progress: Progress, ran_seconds: float, *, protect_seconds: float
) -> bool:
    """Whether it may be stopped for somebody who ranks before it, as things are now."""
    if ran_seconds >= protect_seconds:
        return True
    return spec.preemptible and (has_agreed(spec) or can_go_on(progress))


def note_on(spec: JobSpec, *, protect_seconds: float) -> str:
    """The same in words, for whoever submits it."""
    hours = f"{protect_seconds / HOUR_SECONDS:g} h of each run"
    if not spec.preemptible:
        return f"it is not interrupted for others, for up to {hours}"
    if spec.checkpoint is not None:
        return "it may be interrupted for others, and goes on from what it has saved"
    if has_agreed(spec):
        return "it may be interrupted for others: if it saves nothing, it starts from nothing"
    return (
        "it is not interrupted for others before it has saved something, for up to "
        f"{hours}; preemptible: true allows it"
    )
