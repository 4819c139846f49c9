"""Devices of nodes: what a driver publishes (ResourceSlices), and what others hold of it (claims).

As far as they are counted: the brain gives out what is published and nobody else's.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from weft.kube.claims import Manifest
from weft.kube.quantity import gib

Device = tuple[str, str, str]
"""Driver, pool and name."""


@dataclass(frozen=True, slots=True)
class ObservedClaim:
    """One claim; without devices while it waits for them."""

    uid: str
    version: int
    devices: frozenset[Device]

    def pools(self) -> frozenset[tuple[str, str]]:
        return frozenset((driver, pool) for driver, pool, _ in self.devices)


@dataclass(frozen=True, slots=True)
class ObservedSlice:
    """Some of the devices of one driver on one node; `memory_gib` of the smallest, if all say."""

    uid: str
    version: int
    node: str
    driver: str
    pool: str
    devices: int
    memory_gib: float | None


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """Devices of the driver that counts, on one node, and how many more are claimed by others."""

    gpus: int
    memory_gib: float | None
    foreign: int = 0


def read_slice(raw: Manifest) -> ObservedSlice:
    spec = raw.get("spec") or {}
    devices = spec.get("devices") or ()
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
    )


def read_claim(raw: Manifest) -> ObservedClaim:
    allocation = (raw.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    return ObservedClaim(
        uid=raw["metadata"]["uid"],
        version=int(raw["metadata"]["resourceVersion"]),
        devices=frozenset(
            (str(one["driver"]), str(one["pool"]), str(one["device"]))
            for one in results
            if not one.get("adminAccess")  # looks on beside whoever holds the device
        ),
    )


def devices_on(
    node: str, driver: str, slices: Iterable[ObservedSlice], claims: Iterable[ObservedClaim] = ()
) -> NodeDevices:
    """What the driver has there, over all of its slices, and `claims` of others leave."""
    mine = [one for one in slices if (one.node, one.driver) == (node, driver)]
    memory = [one.memory_gib for one in mine if one.devices]
    known = [amount for amount in memory if amount is not None]
    least = min(known) if known and len(known) == len(memory) else None
    pools = {(one.driver, one.pool) for one in mine}
    taken = {device for claim in claims for device in claim.devices if device[:2] in pools}
    all_of_it = sum(one.devices for one in mine)
    foreign = min(len(taken), all_of_it)
    return NodeDevices(all_of_it - foreign, least, foreign)
