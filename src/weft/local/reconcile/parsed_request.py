"""What a job file asks for, as one machine understands it.

The file is the same as on a cluster, so some of what it says has no meaning here and is left aside:
the image, the queue, the type of GPUs where slots stand for them. The upper end of a range is cut
to what there is, or to what one user may have. What this machine can never give is refused when the
job is submitted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from weft.local.machine.machine import Machine
from weft.local.reconcile.preemption import HOUR_SECONDS, has_agreed, note_on
from weft.local.record.entry import Entry
from weft.model.errors import InfeasibleSpec
from weft.model.ids import DEFAULT_QUEUE, QueueId, TenantId
from weft.model.request import JobRequest, Width
from weft.spec.job_file import JobSpec
from weft.spec.reading import validated
from weft.spec.request import to_request

ROUNDING: Final = 1e-6


@dataclass(frozen=True, slots=True)
class MachineLimits:
    """What whoever keeps the machine lets its users have.

    A job that may not be interrupted keeps its slots for `protect_seconds` of each run. One user
    has at most `user_slots` at a time (None: all that there are). Nothing is started while less
    than `floor_gib` are free on the daemon's file system, and the logs of a job have at most
    `log_gib`.
    """

    protect_seconds: float = 24 * HOUR_SECONDS
    user_slots: int | None = None
    floor_gib: float = 1.0
    log_gib: float = 1.0


MACHINE_LIMITS: Final = MachineLimits()


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A job as the brain knows it, and the file that it comes from; `notes` are for its owner."""

    job: JobRequest
    spec: JobSpec
    notes: tuple[str, ...] = ()


def parse_request(
    entry: Entry, machine: Machine, limits: MachineLimits = MACHINE_LIMITS
) -> ParsedRequest:
    """What the entry's file means here; a SpecError where it means nothing."""
    spec = validated(JobSpec, entry.spec)
    job = to_request(
        spec,
        id=entry.id,
        tenant=TenantId(entry.owner.user),
        submit_seconds=entry.submitted_at,
    )
    capped, slots = limits.user_slots, len(machine.slots)
    there = slots if capped is None else min(slots, capped)
    most = max(min(job.width.max_gpus, there), job.width.min_gpus)
    job = replace(
        job,
        width=Width(job.width.min_gpus, most, most),
        gpu_types=job.gpu_types if machine.has_gpus else (),
        queue=DEFAULT_QUEUE if capped is None else QueueId(entry.owner.user),
        yields=has_agreed(spec),
    )
    return ParsedRequest(job, spec, tuple(notes_on(spec, machine, limits)))


def refuse_impossible(
    job: JobRequest, machine: Machine, limits: MachineLimits = MACHINE_LIMITS
) -> None:
    """What no state of this machine could ever satisfy is not taken in."""
    faults = list(_impossible(job, machine, limits))
    if faults:
        texts, hints = zip(*faults, strict=True)
        raise InfeasibleSpec("; ".join(texts), hint="; ".join(dict.fromkeys(hints)))


def _impossible(
    job: JobRequest, machine: Machine, limits: MachineLimits
) -> Iterator[tuple[str, str]]:
    """Each thing that cannot be had here, with what to do about it."""
    least = job.width.min_gpus
    if limits.user_slots is not None and least > limits.user_slots:
        yield (
            f"it needs at least {least} slots, and one user has at most {limits.user_slots} here",
            "ask for less; a range such as 1..8 takes what you may have",
        )
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
            yield (
                f"it needs at least {need:g} {what}, and {machine.name} has {there:g}",
                "ask for less; a range such as 1..8 takes what there is",
            )
    types = [accepted.type for accepted in job.gpu_types]
    if types and machine.gpu_type not in types:
        yield (
            f"it accepts {', '.join(types)}, and the GPUs of {machine.name} are {machine.gpu_type}",
            "leave gpu_type out, or add that type",
        )


CLUSTER_ONLY = ("service_account", "priority_class", "tolerations", "annotations")


def notes_on(
    spec: JobSpec, machine: Machine, limits: MachineLimits = MACHINE_LIMITS
) -> Iterator[str]:
    """What of the file has no effect here or may have another one than meant, and who yields."""
    yield note_on(spec, protect_seconds=limits.protect_seconds)
    if spec.image:
        yield "image is not used on one machine: the command runs as it is"
    if spec.queue != DEFAULT_QUEUE:
        yield f"queue {spec.queue} is not used on one machine: users share it fairly"
    if spec.resources.gpu_type and not machine.has_gpus:
        yield "gpu_type is not used where slots stand for GPUs"
    for source in spec.env_from:
        yield f"{source.name} is not set on one machine: Secrets and ConfigMaps are a cluster's"
    for name in CLUSTER_ONLY:
        if getattr(spec, name):
            yield f"{name} is not used on one machine"
    if spec.resources.devices_per_gpu:
        yield "devices_per_gpu is not used on one machine: all of its devices are there"
    if spec.volumes:
        paths = ", ".join(volume.path for volume in spec.volumes)
        yield f"volumes are not mounted on one machine: {paths} must be there already"
