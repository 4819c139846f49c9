"""Weft's loop and others on the same work, in one process, block by block in turn.

Noise of the machine comes and goes within seconds; loops that take turns within a second get the
same of it. Run under an agent; writes to a file, as JSON, the seconds of each loop's steps by
round, on the wall and of the processor (all threads). The first step of each block is not counted:
it follows another loop's.

The loops: `weft`; `plain`, as one writes it in PyTorch; `bare`, the same with every batch already
at hand, so that only computing is left; and, with two workers, `ddp` in place of both.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import FileStore
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Sampler
from torch.utils.data.distributed import DistributedSampler

import weft
from benchmarks.runtime.jobs.work import LEARNING_RATE, Table, loss_of, network, parser
from weft.train.api import current

SETTLING_STEPS = 8
"""Those that the profiler runs without overlap, and a few more."""

options_of = parser()
options_of.add_argument("--rounds", type=int, default=3)
options_of.add_argument("--block", type=int, default=6)
options = options_of.parse_args()
table = Table(options.samples, options.features)
model, opt = weft.prepare(network(options.features), lambda p: torch.optim.AdamW(p, LEARNING_RATE))
loader = weft.loader(table, options.batch)
session = current()

Batches = Iterator[tuple[Tensor, Tensor]]
Times = tuple[float, float]
Blocks = dict[str, list[list[Times]]]


class Loop:
    """A loop of plain PyTorch, some steps at a time."""

    def __init__(self, model: nn.Module, batches: Batches) -> None:
        self.model, self.batches = model, batches
        self.opt = torch.optim.AdamW(model.parameters(), LEARNING_RATE)

    def run(self, steps: int) -> list[Times]:
        """The seconds of each step."""
        found = []
        for _ in range(steps):
            began = now()
            x, y = next(self.batches)
            loss_of(self.model, x, y).backward()  # type: ignore[no-untyped-call]
            self.opt.step()
            self.opt.zero_grad()
            found.append(since(began))
        return found


def now() -> Times:
    return time.perf_counter(), time.process_time()


def since(began: Times) -> Times:
    wall, processor = now()
    return wall - began[0], processor - began[1]


def again(loader: DataLoader[tuple[Tensor, Tensor]]) -> Batches:
    """Pass after pass."""
    while True:
        yield from loader


def at_hand() -> Batches:
    """The first batch, whole, for ever."""
    x, y = table.x[: options.batch].clone(), table.y[: options.batch].clone()
    while True:
        yield x, y


def others() -> dict[str, Loop]:
    """What stands beside Weft, made when the width is known."""
    if session.width == 1:
        plain = DataLoader(table, options.batch, shuffle=True)
        return {
            "plain": Loop(network(options.features), again(plain)),
            "bare": Loop(network(options.features), at_hand()),
        }
    place = Path(os.environ["WEFT_BENCH_OUT"]) / "ddp"
    store = FileStore(str(place), session.width)
    dist.init_process_group("gloo", store=store, rank=session.rank, world_size=session.width)
    sampler: Sampler[int] = DistributedSampler(table)
    mine = DataLoader(table, options.batch // session.width, sampler=sampler)
    return {"ddp": Loop(DistributedDataParallel(network(options.features)), again(mine))}


def measure() -> Blocks:
    loops: dict[str, Loop] = {}
    blocks: Blocks = {"weft": []}
    block: list[Times] = []
    total = SETTLING_STEPS + options.rounds * options.block
    began = now()
    for mb in weft.steps(loader, total=total):
        weft.backward(loss_of(model, mb.x, mb.y))
        opt.step()
        opt.zero_grad()
        block.append(since(began))
        settled = session.step - SETTLING_STEPS
        if settled == 0:
            loops, block = others(), []
            _beside(loops, {})
        elif settled > 0 and settled % options.block == 0:
            blocks["weft"].append(block[1:])
            block = []
            _beside(loops, blocks)
        began = now()
    return blocks


def _beside(loops: dict[str, Loop], blocks: Blocks) -> None:
    for name, loop in loops.items():
        blocks.setdefault(name, []).append(loop.run(options.block)[1:])


found = measure()
if session.rank == 0:
    out = Path(os.environ["WEFT_BENCH_OUT"]) / "beside.json"
    out.write_text(json.dumps(found))
if dist.is_initialized():
    dist.destroy_process_group()
