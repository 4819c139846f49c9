"""Devices that a driver publishes of a node (a ResourceSlice), as far as they are counted."""

from collections.abc import Iterable
from dataclasses import dataclass

from weft.kube.operator.observation.metadata import Raw
from weft.kube.quantity import gib


@dataclass(frozen=True, slots=True)
class ObservedSlice:
    """Some of the devices of one driver on one node; `memory_gib` of the smallest, if all say."""

    uid: str
    version: int
    node: str
    driver: str
    devices: int
    memory_gib: float | None


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """All devices of the driver that counts, on one node."""

    gpus: int
    memory_gib: float | None


def read_slice(raw: Raw) -> ObservedSlice:
    spec = raw.get("spec") or {}
    devices = spec.get("devices") or ()
    told = [(one.get("capacity") or {}).get("memory", {}).get("value") for one in devices]
    known = [gib(amount) for amount in told if amount is not None]
    return ObservedSlice(
        uid=raw["metadata"]["uid"],
        version=int(raw["metadata"]["resourceVersion"]),
        node=str(spec.get("nodeName") or ""),
        driver=str(spec.get("driver") or ""),
        devices=len(devices),
        memory_gib=min(known) if known and len(known) == len(told) else None,
    )


def devices_on(node: str, driver: str, slices: Iterable[ObservedSlice]) -> NodeDevices:
    """What the driver has there, over all of its slices."""
    mine = [one for one in slices if (one.node, one.driver) == (node, driver)]
    memory = [one.memory_gib for one in mine if one.devices]
    known = [amount for amount in memory if amount is not None]
    least = min(known) if known and len(known) == len(memory) else None
    return NodeDevices(sum(one.devices for one in mine), least)
