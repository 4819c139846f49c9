"""What one step of a job does while it has its GPUs to itself, from what its first member measures.

Times are those of calibrating steps, in which one stage follows the other, and the step is the
usual one. What is measured beside another job is that job's doing too. In turns it is so by little,
for who has its turn has the resource to itself; so of a job that has never been alone it is told
what its stages take in turns, and how long its step is without the waits for them.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

RESOURCES: Final = ("storage", "cpu", "gpu", "network")
TOKEN_WAIT: Final = "token_wait"
MOST_BYTES: Final = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Profile:
    """Of a step of `width` members: busy seconds by resource, and the peak of one's memory."""

    width: int
    step_seconds: float
    storage_seconds: float
    cpu_seconds: float
    gpu_seconds: float
    network_seconds: float
    peak_bytes: int | None = None

    def as_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def profile_in_turns(report: Mapping[str, Any]) -> Profile | None:
    """The same of a job that takes turns.

    Reading ahead goes on while the loop waits for its turn, and alone it would not be hidden there:
    the step is at least as long as reading, and as computing.
    """
    found, exposed = profile_of(report), report.get("exposed")
    waited = exposed.get(TOKEN_WAIT) if isinstance(exposed, Mapping) else None
    if found is None or not isinstance(waited, list | tuple) or not waited:
        return None
    if not _is_time(waited[0]):
        return None
    reads = found.storage_seconds + found.cpu_seconds
    computes = found.gpu_seconds + found.network_seconds
    return replace(found, step_seconds=max(found.step_seconds - waited[0], reads, computes))


def profile_of(report: Mapping[str, Any]) -> Profile | None:
    """Of a report of `weft.train.stages`; None before there were steps of both kinds."""
    step, resources = report.get("step"), report.get("resources")
    width, peak = report.get("width"), report.get("peak_memory_bytes")
    if not report.get("calibrated") or not isinstance(resources, Mapping):
        return None
    if type(width) is not int or width < 1:
        return None
    if not isinstance(step, list | tuple) or not step or not _is_time(step[0]) or not step[0]:
        return None
    storage, cpu, gpu, network = (resources.get(name, 0.0) for name in RESOURCES)
    if not all(map(_is_time, (storage, cpu, gpu, network))) or not any(
        (storage, cpu, gpu, network)
    ):
        return None
    held = peak if type(peak) is int and 0 < peak <= MOST_BYTES else None
    return Profile(width, step[0], storage, cpu, gpu, network, held)


def _is_time(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0.0 <= value < math.inf
