"""Machines and their GPUs."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

SUSPECT: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A failure that was laid to a node; `weight` is less than one where it was shared."""

    at: datetime
    job: str
    action: str
    weight: float
    forgiven: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHealth:
    """What is held against a node, and what follows from it.

    The score fades. Nothing starts on a node that is set aside until a check has passed, and on a
    lemon not before people have repaired it; `for_people` says that it would be set aside if there
    were not too many already.
    """

    score: float
    failures: int
    aside_since: datetime | None = None
    check_due: datetime | None = None
    checks: int = 0
    lemon: bool = False
    for_people: bool = False
    why: str = ""
    history: tuple[Mark, ...] = ()

    @property
    def words(self) -> str:
        """In a cell of a table."""
        if self.aside_since is not None:
            return "lemon" if self.lemon else "set aside"
        if self.for_people:
            return "needs people"
        return f"suspect {self.score:.1f}" if self.score >= SUSPECT else "well"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """A node. `foreign_gpus` is None where the reader may not see what others do on it.

    `health` is None where nobody keeps it. Nobody new is given the `tainted_gpus`, which are not
    among its `gpus` unless jobs hold them; `taints` tell why, of the first of them.
    """

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
    health: NodeHealth | None = None
    tainted_gpus: int = 0
    taints: tuple[str, ...] = ()

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
