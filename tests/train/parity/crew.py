"""Every row on three processes that go through all of them in turn, over a real group of gloo.

    python crew.py <folder>      writes what each process has learnt in each row, in both ways

As long as nobody comes or goes, an agent has no part in a step: shares, sums and votes are between
the members. So these processes have a group and no agent, which spares three starts for each row.
Rows in which figures go through the agent are run with one.
"""

import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Final

import torch
import torch.distributed as dist

from tests.train.parity import elastic
from tests.train.parity.feature import short
from tests.train.parity.features import FEATURES
from weft.train.groups.backend import gloo
from weft.train.groups.connections import Connections
from weft.train.groups.group import BackendGroup, EpochGroups
from weft.train.membership import member
from weft.train.membership.contact import LOCALHOST
from weft.train.membership.protocol import Part

WIDTH: Final = 3
PATIENCE: Final = timedelta(seconds=200)
NEED_AN_AGENT: Final = frozenset({"plateau", "torchmetrics"})


def main() -> None:
    torch.set_default_dtype(torch.float64)
    folder = Path(sys.argv[1])
    rank, others = 0, list[int]()
    for number in range(1, WIDTH):
        pid = os.fork()
        if pid == 0:
            rank, others = number, []
            break
        others.append(pid)
    be_one_of(folder, rank)
    if rank:
        os._exit(0)
    ends = [os.waitpid(pid, 0)[1] for pid in others]
    assert not any(ends), ends


def be_one_of(folder: Path, rank: int) -> None:
    store = dist.FileStore(str(folder / "store"), WIDTH)  # type: ignore[attr-defined]
    backend = gloo(store, rank, WIDTH, LOCALHOST, PATIENCE)  # type: ignore[arg-type]
    group = BackendGroup(backend, rank, WIDTH, Connections(), PATIENCE)
    groups = EpochGroups(1, tuple(range(WIDTH)), 1, group, group, group)
    alone = member._part_alone

    def part_of_it() -> Part:
        """All have the state, and share the samples."""
        part = alone()
        part.members = groups.members
        return part

    member._alone, member._part_alone = (lambda contact: groups), part_of_it
    for feature in FEATURES:
        if feature.refused or feature.name in NEED_AN_AGENT:
            continue
        for communication, row in (("weft", feature), ("ddp", short(feature))):
            found = elastic.train(row, communication=communication)
            name = f"{feature.name}-{communication}-{rank}.json"
            (folder / name).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
