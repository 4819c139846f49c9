"""Every row with torch's DistributedDataParallel, as three processes that go through all of them.

    python ddp.py <folder>      prints one line for each row: its name, and what came of it

The rows are not made to fit: what DDP would need a script to do otherwise, it is not given.
"""

import os
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.train.parity import plain
from tests.train.parity.feature import Feature, Live, furthest, state_of, table
from tests.train.parity.features import FEATURES

WIDTH, SHARE, STEPS = 3, 3, 16
PATIENCE: Final = timedelta(seconds=200)


def outcome(feature: Feature, rank: int) -> str:
    even = replace(feature, batch=WIDTH * SHARE, last_step=STEPS, loops=1)
    try:
        found = train(even, rank)
    except Exception as error:  # whatever it says is the outcome
        print(f"{feature.name}: {error!r:.200}", file=sys.stderr)  # noqa: T201
        return "fails"
    return "equal" if furthest(found, plain.train(even)) < feature.tolerance else "differs"


def train(feature: Feature, rank: int) -> dict[str, list[float]]:
    torch.manual_seed(0)
    model = feature.model()
    optimizer = feature.optimizer(model.parameters())
    scheduler = feature.scheduler(optimizer) if feature.scheduler else None
    wrapped = DistributedDataParallel(model, find_unused_parameters=True)
    live = Live(wrapped, optimizer, feature.extra(model), scheduler)
    x, y = table()
    for step in range(feature.last_step):
        live.step = step
        first = step * feature.batch + rank * SHARE
        rows = torch.arange(first, first + SHARE) % len(x)
        plain.one_step(feature, live, x[rows], y[rows])
    feature.between(live)
    live.model = model
    return state_of(live)


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
    store = dist.FileStore(str(folder / "store"), WIDTH)  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=rank, world_size=WIDTH, timeout=PATIENCE)
    for feature in FEATURES:
        if feature.refused:
            continue
        found = outcome(feature, rank)
        dist.barrier()
        if rank == 0:
            print(feature.name, found, flush=True)  # noqa: T201 - what it is for
    sys.stdout.flush()
    if rank:
        os._exit(0)
    for pid in others:
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
