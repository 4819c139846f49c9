"""One queue, as its object says."""

from dataclasses import dataclass

from weft.kube.operator.observation.metadata import Raw
from weft.kube.resources.queue import QueueSpec
from weft.model.errors import SpecError
from weft.spec.reading import validated


@dataclass(frozen=True, slots=True)
class ObservedQueue:
    """One queue; `fault` says why it cannot be used."""

    uid: str
    version: int
    name: str
    generation: int
    spec: QueueSpec | None
    fault: str
    status: Raw


def read_queue(raw: Raw) -> ObservedQueue:
    meta = raw["metadata"]
    spec, fault = None, ""
    try:
        spec = validated(QueueSpec, raw.get("spec", {}), name=meta["name"])
    except SpecError as error:
        fault = f"{error}: {error.hint}"
    return ObservedQueue(
        uid=meta["uid"],
        version=int(meta["resourceVersion"]),
        name=meta["name"],
        generation=int(meta.get("generation", 1)),
        spec=spec,
        fault=fault,
        status=raw.get("status") or {},
    )
