"""The same work as a script for torchrun: DistributedDataParallel, started anew at each change."""

import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Sampler
from torch.utils.data.distributed import DistributedSampler

from benchmarks.runtime.jobs.work import LEARNING_RATE, Table, loss_of, network, parser

options = parser().parse_args()
dist.init_process_group("gloo")
world = dist.get_world_size()
model = DistributedDataParallel(network(options.features))
opt = torch.optim.AdamW(model.parameters(), LEARNING_RATE)
table = Table(options.samples, options.features)
sampler: Sampler[int] = DistributedSampler(table)
loader = DataLoader(table, options.batch // world, sampler=sampler)
out = Path(os.environ["WEFT_BENCH_OUT"]) / f"steps-{os.getpid()}.jsonl"

with out.open("a", buffering=1) as log:
    while True:
        for x, y in loader:
            loss_of(model, x, y).backward()  # type: ignore[no-untyped-call]
            opt.step()
            opt.zero_grad()
            line = {
                "world": world,
                "ended": time.monotonic(),
                "pid": os.getpid(),
                "parent": os.getppid(),
            }
            log.write(json.dumps(line) + "\n")
