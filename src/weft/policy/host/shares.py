"""Host shares: cores and memory are handed out with the GPUs, and not merely in their wake.

A job with a host curve is *owed* the least that keeps the speed of its GPU-proportional share, and
may be *fed* more while nobody else needs it. A GPU's fair share is that of the poorest node: what
every scheduler that goes by GPUs alone could promise anywhere. So all that is owed on a node fits
there, whatever the mixture of jobs.
"""

from dataclasses import dataclass, replace
from math import inf

import numpy as np

from weft.model.host import HostCurve, PerGpu
from weft.model.kind import Kind
from weft.model.snapshot import NodeColumns
from weft.policy.host.core_ladder import Ladder, ladder


@dataclass(frozen=True, slots=True)
class HostShares:
    """How cores and memory of running jobs may change.

    A change must speed a job up by more than `gain`, and is made no sooner than `hold_seconds`
    after the job's last one; what is fed is called back at any time for a job that needs it.
    """

    gain: float = 0.03
    hold_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Fair:
    """A GPU's fair share, and the most that there is on one node."""

    share: PerGpu
    node: PerGpu

    def ladder(self, curve: HostCurve) -> Ladder:
        if curve.memory_gib == (0.0,):
            return ladder(curve, PerGpu(self.share.cores), PerGpu(self.node.cores))
        return ladder(curve, self.share, self.node)

    def owed(self, kind: Kind, curve: HostCurve) -> Kind:
        """The kind of a job that asks for its floor instead of what its owner wrote."""
        floor = self.ladder(curve).floor.host
        memory = floor.memory_gib if curve.memory_gib != (0.0,) else kind.memory_gib_per_gpu
        return replace(kind, cpus_per_gpu=floor.cores, memory_gib_per_gpu=memory)


def fed_kind(kind: Kind, fed: PerGpu) -> Kind:
    """A kind with so much more for each GPU."""
    return replace(
        kind,
        cpus_per_gpu=kind.cpus_per_gpu + fed.cores,
        memory_gib_per_gpu=kind.memory_gib_per_gpu + fed.memory_gib,
    )


def fair_of(nodes: NodeColumns) -> Fair | None:
    """None where the nodes' cores are not counted, or where there are no GPUs."""
    some = nodes.present & (nodes.gpus > 0)
    if not some.any() or not np.isfinite(nodes.cpus[some]).all():
        return None
    cores = float((nodes.cpus[some] / nodes.gpus[some]).min())
    memory = float((nodes.memory_gib[some] / nodes.gpus[some]).min())
    if cores <= 0:
        return None
    most = float(nodes.memory_gib[some].max())
    return Fair(
        PerGpu(cores, memory if memory > 0 else inf),
        PerGpu(float(nodes.cpus[some].max()), most if most > 0 else inf),
    )
