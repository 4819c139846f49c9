"""Machines and their GPUs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """A node. `foreign_gpus` is None where the reader may not see what others do on it."""

    name: str
    state: str
    gpu_type: str | None
    gpu_memory_mib: int | None
    gpus: int
    used_gpus: int
    foreign_gpus: int | None
    rack: str | None
    pool: str | None
    cpus: str
    memory: str
    jobs: tuple[str, ...]

    @property
    def ready(self) -> bool:
        return self.state == "Ready"

    @property
    def free_gpus(self) -> int:
        return max(0, self.gpus - self.used_gpus - (self.foreign_gpus or 0))


@dataclass(frozen=True, slots=True)
class NodePage:
    """All nodes, and what could not be counted."""

    nodes: tuple[NodeLine, ...]
    notes: tuple[str, ...] = ()
