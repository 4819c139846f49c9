"""Where the time of one iteration goes, by resource: what interleaving stands on.

Stages do not add up to the iteration: loaders prefetch, so busy times overlap, and what is left
over is nobody's. A profile therefore carries both, the busy seconds of each resource and the
iteration as it was measured alone. Some tables know storage and CPU only as one *loading* stage; it
spans two slots of a cycle where the others have one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from weft.model.errors import SpecError

RESOURCES = ("storage", "cpu", "gpu", "network")
"""Slots of a cycle, in the order in which an iteration needs them."""

MOST_SECONDS = 86_400.0
"""No iteration takes a day: a figure beyond it is a wrong unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageProfile:
    """Busy seconds of one iteration, the iteration alone, and peak GPU memory if it is known."""

    iteration_seconds: float
    storage_seconds: float = 0.0
    cpu_seconds: float = 0.0
    gpu_seconds: float = 0.0
    network_seconds: float = 0.0
    loading_seconds: float = 0.0
    """Storage and CPU together, where a table does not tell them apart."""

    gpu_memory_bytes: int | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.iteration_seconds <= MOST_SECONDS:
            raise SpecError(
                f"an iteration of {self.iteration_seconds:g} s cannot be",
                hint="give seconds, above 0 and at most a day",
            )
        for stage in self.stages_seconds:
            if not 0.0 <= stage <= MOST_SECONDS or math.isnan(stage):
                raise SpecError(
                    f"a stage of {stage:g} s cannot be", hint="give seconds, none below 0"
                )

    @property
    def stages_seconds(self) -> tuple[float, ...]:
        """Storage, CPU, GPU, network, and what loads in both of the first two."""
        return (
            self.storage_seconds,
            self.cpu_seconds,
            self.gpu_seconds,
            self.network_seconds,
            self.loading_seconds,
        )

    @property
    def overlong(self) -> str:
        """The first resource that is busy for longer than the iteration, which none can be.

        Published tables tell of loading that is: it stands for two resources. It is asked where
        somebody claims a profile, because a measurement may be off by a hair.
        """
        busy = zip(RESOURCES, self.stages_seconds[: len(RESOURCES)], strict=True)
        return next((name for name, seconds in busy if seconds > self.iteration_seconds), "")

    @property
    def busy_seconds(self) -> float:
        return math.fsum(self.stages_seconds)

    def scaled(self, times: float) -> "StageProfile":
        """So many times as long, in the same memory."""
        return self.timed(lambda seconds: seconds * times)

    def timed(self, change: Callable[[float], float]) -> "StageProfile":
        """With each of its times changed, that of the iteration first, in the same memory."""
        return StageProfile(
            iteration_seconds=change(self.iteration_seconds),
            storage_seconds=change(self.storage_seconds),
            cpu_seconds=change(self.cpu_seconds),
            gpu_seconds=change(self.gpu_seconds),
            network_seconds=change(self.network_seconds),
            loading_seconds=change(self.loading_seconds),
            gpu_memory_bytes=self.gpu_memory_bytes,
        )


BUSY = StageProfile(iteration_seconds=1.0, gpu_seconds=1.0)
"""Of a job of which nobody knows better: it leaves no gap."""
