"""The same state as a file: Weft's checkpoint beside `torch.save`. Prints seconds as JSON.

files.py FOLDER --times N [--weft] …
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.runtime.jobs.work import LEARNING_RATE, Table, loss_of, network, parser
from weft.agent.checkpoint.vault import Vault
from weft.train.state.book import StateBook
from weft.train.state.snapshot import Snapshots, load

JOB = "bench"

options_of = parser()
options_of.add_argument("folder", type=Path)
options_of.add_argument("slots", type=Path)
options_of.add_argument("--times", type=int, default=3)
options_of.add_argument("--weft", action="store_true")
options = options_of.parse_args()

torch.set_num_threads(1)
table = Table(options.batch, options.features)
model = network(options.features)
opt = torch.optim.AdamW(model.parameters(), LEARNING_RATE)
loss_of(model, table.x, table.y).backward()  # type: ignore[no-untyped-call]
opt.step()
book = StateBook(model, opt)
found: dict[str, list[float]] = {}


def timed(what: str, deed: Callable[..., Any], *given: object) -> Any:  # noqa: ANN401 - its result
    began = time.perf_counter()
    done = deed(*given)
    found.setdefault(what, []).append(time.perf_counter() - began)
    return done


def torch_save(path: Path) -> None:
    """Durable, as Weft's are."""
    with path.open("wb") as file:
        torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, file)
        file.flush()
        os.fsync(file.fileno())


def torch_load(path: Path) -> object:
    return torch.load(path, weights_only=True)


def with_torch() -> None:
    for number in range(options.times):
        path = options.folder / f"{number}.pt"
        timed("torch.save", torch_save, path)
        timed("torch.load", torch_load, path)
        path.unlink()


def with_weft() -> None:
    snapshots = Snapshots(options.slots, 0, book, job=JOB, incarnation=1)
    snapshots.prepare()
    snapshots.take(0, 0)
    vault = Vault(options.folder / "vault", JOB, 1)
    for step in range(1, options.times + 1):
        taken = timed("snapshot", snapshots.take, step, step)
        path = timed("write", vault.write, step, step, [taken.path])
        timed("verify", vault.newest)
        timed("load", load, book, path)
        vault.retain(time.time(), last=1)
    snapshots.close()


if options.weft:
    with_weft()
with_torch()
size = sum(tensor.nbytes for tensor in book.tensors().values())
print(json.dumps({"bytes": size, "seconds": found}))
