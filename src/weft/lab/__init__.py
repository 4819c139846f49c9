"""Experiments over the simulated world: run, compare, replay, ask why, and show it on a page.

`workload`, `generated`, `simulate` and `compare` are for notebooks and scripts (`lab.notebook`).
They are loaded when they are asked for, because commands load parts of this room and wait for no
more than those. None of their names may be that of a folder here, which would take its place.

    workloads/   what is to be run, and whether it can be served
    journals/    what was recorded: read, replayed, asked
    report/      the page of a run or a comparison
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.lab.notebook import Compared, Jobs, Run, compare, generated, simulate, workload

__all__ = ["Compared", "Jobs", "Run", "compare", "generated", "simulate", "workload"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from weft.lab import notebook

        return getattr(notebook, name)
    raise AttributeError(f"module 'weft.lab' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
