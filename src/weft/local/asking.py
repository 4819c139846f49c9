"""What a job file asks for, as one machine understands it.

The file is the same as on a cluster, so some of what it says has no meaning here and is left aside:
the image, the queue, the type of GPUs where slots stand for them. The upper end of a range is cut
to what there is. What this machine can never give is refused when the job is submitted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from weft.local.entry import Entry
from weft.local.machine import Machine
from weft.model.errors import InfeasibleSpec
from weft.model.ids import DEFAULT_QUEUE, TenantId
from weft.model.job import Job, Width
from weft.spec.job import to_job
from weft.spec.job_file import JobSpec
from weft.spec.reading import validated

ROUNDING: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Asked:
    """A job as the brain knows it, and the file that it comes from."""

    job: Job
    spec: JobSpec


def asked(entry: Entry, machine: Machine) -> Asked:
    """What the entry's file means here; a SpecError where it means nothing."""
    spec = validated(JobSpec, entry.spec)
    job = to_job(
        spec,
        id=entry.id,
        tenant=TenantId(entry.owner.user),
        submit_seconds=entry.submitted_at,
    )
    most = max(min(job.width.max_gpus, len(machine.slots)), job.width.min_gpus)
    width = Width(job.width.min_gpus, most, most)
    types = job.gpu_types if machine.has_gpus else ()
    return Asked(replace(job, width=width, gpu_types=types, queue=DEFAULT_QUEUE), spec)


def refuse_impossible(job: Job, machine: Machine) -> None:
    """What no state of this machine could ever satisfy is not taken in."""
    least = job.width.min_gpus
    needs = (
        ("GPUs" if machine.has_gpus else "slots", float(least), float(len(machine.slots))),
        ("CPUs", job.cpus if not least else job.cpus_per_gpu * least, float(len(machine.cpus))),
        (
            "GiB of memory",
            job.memory_gib if not least else job.memory_gib_per_gpu * least,
            machine.memory_gib or float("inf"),
        ),
    )
    for what, need, there in needs:
        if need > there + ROUNDING:
            raise InfeasibleSpec(
                f"it needs at least {need:g} {what}, and {machine.name} has {there:g}",
                hint="ask for less; a range such as 1..8 takes what there is",
            )
    types = [accepted.type for accepted in job.gpu_types]
    if types and machine.gpu_type not in types:
        raise InfeasibleSpec(
            f"it accepts {', '.join(types)}, and the GPUs of {machine.name} are {machine.gpu_type}",
            hint="leave gpu_type out, or add that type",
        )


def notes_on(spec: JobSpec, machine: Machine) -> Iterator[str]:
    """What of the file has no effect here, or may have another one than meant."""
    if spec.image:
        yield "image is not used on one machine: the command runs as it is"
    if spec.queue != DEFAULT_QUEUE:
        yield f"queue {spec.queue} is not used on one machine: users share it fairly"
    if spec.resources.gpu_type and not machine.has_gpus:
        yield "gpu_type is not used where slots stand for GPUs"
    if spec.volumes:
        paths = ", ".join(volume.path for volume in spec.volumes)
        yield f"volumes are not mounted on one machine: {paths} must be there already"
