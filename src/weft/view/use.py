"""A world at a glance: how full it is, and what runs."""

from collections.abc import Iterable
from dataclasses import dataclass

from weft.view.jobs import JobLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A world at a glance. What concerns nodes is None where the reader may not see them."""

    nodes: int | None
    ready_nodes: int | None
    gpus: int | None
    ready_gpus: int | None
    used_gpus: int
    running: int
    waiting: int
    jobs: tuple[JobLine, ...]


def widest_first(jobs: Iterable[JobLine]) -> tuple[JobLine, ...]:
    """The jobs that hold something, in the order in which they are shown."""
    return tuple(sorted((j for j in jobs if not j.waiting), key=lambda j: (-j.gpus, j.name)))
