"""What a pod takes of its node: the sum that the stock scheduler counts.

Its rule is followed to the letter, because what it counts is gone, whatever a pod uses. Containers
run together, so they are added up. Init containers run one after the other before them, so only the
largest counts, together with the sidecars (init containers that restart always) which run by then;
sidecars stay, and are added to the containers. What a pod states for itself as a whole takes the
place of that sum. The overhead of its runtime comes on top.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from weft.kube.node_rules import devices
from weft.kube.quantity import gib, parse_quantity

Raw = Mapping[str, Any]
Amounts = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class PodRequests:
    """Cores and memory, and devices by the name of their resource: GPUs are among them."""

    cpus: float = 0.0
    memory_gib: float = 0.0
    devices: Amounts = ()

    def of(self, resource: str) -> float:
        """How many of these devices."""
        return next((amount for name, amount in self.devices if name == resource), 0.0)

    def plus(self, more: "PodRequests") -> "PodRequests":
        found = dict(self.devices)
        for name, amount in more.devices:
            found[name] = found.get(name, 0.0) + amount
        return PodRequests(
            self.cpus + more.cpus, self.memory_gib + more.memory_gib, tuple(found.items())
        )

    def at_least(self, other: "PodRequests") -> "PodRequests":
        found = dict(self.devices)
        for name, amount in other.devices:
            found[name] = max(found.get(name, 0.0), amount)
        return PodRequests(
            max(self.cpus, other.cpus),
            max(self.memory_gib, other.memory_gib),
            tuple(found.items()),
        )


NOTHING: Final = PodRequests()


def pod_requests(spec: Raw) -> PodRequests:
    """Of a pod with this spec."""
    together = NOTHING
    for container in spec.get("containers") or ():
        together = together.plus(_of(_asked(container)))
    sidecars = largest = NOTHING
    for container in spec.get("initContainers") or ():
        asked = _of(_asked(container))
        if container.get("restartPolicy") == "Always":
            together, sidecars = together.plus(asked), sidecars.plus(asked)
            largest = largest.at_least(sidecars)
        else:
            largest = largest.at_least(sidecars.plus(asked))
    found = _stated_for_all(spec, together.at_least(largest))
    return found.plus(_of(spec.get("overhead") or {}))


def _stated_for_all(spec: Raw, summed: PodRequests) -> PodRequests:
    """A pod may state cores and memory for all its containers; devices it cannot."""
    asked = _asked(spec)
    return replace(
        summed,
        cpus=parse_quantity(asked["cpu"]) if "cpu" in asked else summed.cpus,
        memory_gib=gib(asked["memory"]) if "memory" in asked else summed.memory_gib,
    )


def _asked(container: Raw) -> dict[str, Any]:
    """A limit without a request is a request too."""
    resources = container.get("resources") or {}
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def _of(asked: Raw) -> PodRequests:
    return PodRequests(
        parse_quantity(asked.get("cpu", 0)), gib(asked.get("memory", 0)), devices(asked)
    )
