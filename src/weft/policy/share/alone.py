"""Every job alone on its GPUs; interleaving takes this function's place."""

from collections.abc import Mapping
from typing import Protocol

from weft.model.group import Group
from weft.model.snapshot import Ints, Snapshot


class Share(Protocol):
    """Groups jobs, by slot; those left out run alone."""

    def __call__(self, snapshot: Snapshot, slots: Ints) -> Mapping[int, Group]: ...


def alone(snapshot: Snapshot, slots: Ints) -> Mapping[int, Group]:
    return {}
