"""Whether a node suits a job beyond GPUs, cores and memory: network devices, and taints.

Devices are counted like cores, for each GPU. A node that has at least as many for each of its GPUs
as a job demands has enough for any part of them, whoever has the rest by the same measure: so they
need no count of their own, and what is free of them follows from the GPUs that are free.
"""

from dataclasses import dataclass

Amounts = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Offering:
    """What a node has for each of its GPUs, and the taints that keep strangers away."""

    devices_per_gpu: Amounts = ()
    taints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Demand:
    """What a job wants for each of its GPUs, and the taints that it bears."""

    devices_per_gpu: Amounts = ()
    bears: tuple[str, ...] = ()

    def is_met_by(self, offering: Offering) -> bool:
        offered = dict(offering.devices_per_gpu)
        return all(taint in self.bears for taint in offering.taints) and all(
            offered.get(name, 0.0) >= amount for name, amount in self.devices_per_gpu
        )


PLAIN = Offering()
UNDEMANDING = Demand()
