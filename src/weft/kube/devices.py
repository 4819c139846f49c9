"""Devices of nodes: what a driver publishes (ResourceSlices), and what others hold of it (claims).

As far as they are counted: the brain gives out what is published and nobody else's. A device with
a taint that keeps claims away is not counted either: a claim that counted on it would wait for
ever, because ours tolerate none.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from weft.kube.claims import Manifest
from weft.kube.names import JOB_LABEL, parse_pod_name
from weft.kube.operator.observation.metadata import is_training_job
from weft.kube.quantity import gib
from weft.kube.trouble import MOST_MESSAGE, Trouble

DEVICE_TAINT: Final = "DeviceTaint"
KEEPS_AWAY: Final = frozenset({"NoSchedule", "NoExecute"})  # unknown effects are none
MOST_TOLD: Final = 8

Device = tuple[str, str, str]
"""Driver, pool and name."""


@dataclass(frozen=True, slots=True)
class ObservedClaim:
    """One claim; without devices while it waits for them. `job` is empty if it is not Weft's.

    A claim of Weft's has the name and the label of a job's worker, and a TrainingJob owns it.
    """

    uid: str
    version: int
    devices: frozenset[Device]
    job: str = ""

    def pools(self) -> frozenset[tuple[str, str]]:
        return frozenset((driver, pool) for driver, pool, _ in self.devices)


@dataclass(frozen=True, slots=True)
class ObservedSlice:
    """Some of the devices of one driver on one node; `memory_gib` of the smallest, if all say.

    Those with a taint are not among its `devices`, nor in their `names`: they are `kept_away`, and
    the first of them are told in `tainted`.
    """

    uid: str
    version: int
    node: str
    driver: str
    pool: str
    devices: int
    memory_gib: float | None
    kept_away: frozenset[str] = frozenset()
    tainted: tuple[Trouble, ...] = ()
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """Devices of the driver that counts, on one node, and how many more are claimed by others.

    Nobody new is given those that are `kept_away`.
    """

    gpus: int
    memory_gib: float | None
    foreign: int = 0
    kept_away: int = 0

    def while_held(self, held: int) -> "NodeDevices":
        """A taint sends nobody away who is there: what is held counts for as long as it is.

        One who holds a device with a taint may be any of them, so none is sent away for it.
        """
        return replace(self, gpus=max(self.gpus, min(held, self.gpus + self.kept_away)))


def read_slice(raw: Manifest) -> ObservedSlice:
    spec = raw.get("spec") or {}
    published = spec.get("devices") or ()
    tainted = [one for one in published if _taints(one)]
    devices = [one for one in published if not _taints(one)]
    told = [(one.get("capacity") or {}).get("memory", {}).get("value") for one in devices]
    known = [gib(amount) for amount in told if amount is not None]
    return ObservedSlice(
        uid=raw["metadata"]["uid"],
        version=int(raw["metadata"]["resourceVersion"]),
        node=str(spec.get("nodeName") or ""),
        driver=str(spec.get("driver") or ""),
        pool=str((spec.get("pool") or {}).get("name") or ""),
        devices=len(devices),
        memory_gib=min(known) if known and len(known) == len(told) else None,
        kept_away=frozenset(str(one.get("name", "")) for one in tainted),
        tainted=tuple(map(_trouble, tainted[:MOST_TOLD])),
        names=frozenset(str(one.get("name", "")) for one in devices),
    )


def _taints(device: Manifest) -> list[Manifest]:
    return [one for one in device.get("taints") or () if one.get("effect") in KEEPS_AWAY]


def _trouble(device: Manifest) -> Trouble:
    """The first of its taints, as a monitor of the node would tell it."""
    return taint_trouble(str(device.get("name", "")), _taints(device)[0])


def taint_trouble(device: str, taint: Manifest) -> Trouble:
    value = f"={taint['value']}" if taint.get("value") else ""
    text = f"{device} has the taint {taint.get('key', '')}{value}"
    added = taint.get("timeAdded")
    since = datetime.fromisoformat(added).timestamp() if added else None
    return Trouble(DEVICE_TAINT, text[:MOST_MESSAGE], since)


def tainted_on(node: str, driver: str, slices: Iterable[ObservedSlice]) -> tuple[Trouble, ...]:
    """What keeps claims away from devices of the driver there."""
    mine = (one for one in slices if (one.node, one.driver) == (node, driver))
    return tuple(trouble for one in mine for trouble in one.tainted)


def read_claim(raw: Manifest) -> ObservedClaim:
    allocation = (raw.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    return ObservedClaim(
        job=_job_of_claim(raw["metadata"]),
        uid=raw["metadata"]["uid"],
        version=int(raw["metadata"]["resourceVersion"]),
        devices=frozenset(
            (str(one["driver"]), str(one["pool"]), str(one["device"]))
            for one in results
            if not one.get("adminAccess")  # looks on beside whoever holds the device
        ),
    )


def _job_of_claim(meta: Manifest) -> str:
    """The job that it was made for first; that job may be gone, and others own the claim."""
    named = parse_pod_name(str(meta.get("name", "")))
    if named is None or named.job != (meta.get("labels") or {}).get(JOB_LABEL):
        return ""
    return named.job if any(map(is_training_job, meta.get("ownerReferences") or ())) else ""


def devices_on(
    node: str, driver: str, slices: Iterable[ObservedSlice], claims: Iterable[ObservedClaim] = ()
) -> NodeDevices:
    """What the driver has there, over all of its slices, and `claims` of others leave."""
    mine = [one for one in slices if (one.node, one.driver) == (node, driver)]
    memory = [one.memory_gib for one in mine if one.devices]
    known = [amount for amount in memory if amount is not None]
    least = min(known) if known and len(known) == len(memory) else None
    pools = {(one.driver, one.pool) for one in mine}
    away = {(one.driver, one.pool, name) for one in mine for name in one.kept_away}
    taken = {device for claim in claims for device in claim.devices if device[:2] in pools}
    all_of_it = sum(one.devices for one in mine)
    foreign = min(len(taken - away), all_of_it)
    return NodeDevices(all_of_it - foreign, least, foreign, len(away - taken))
