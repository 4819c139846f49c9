"""A small job whose every step leaves lines: which samples, which loss, which state."""

import argparse
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import Dataset

import weft
from weft import crash
from weft.train import transfer
from weft.train.api import current

worker = os.environ.get("WEFT_WORKER", "alone")
crash._PLAN.__init__(os.environ.get(f"CRASH_{worker}", ""))  # type: ignore[misc]

parser = argparse.ArgumentParser()
parser.add_argument("--total", type=int, default=40)
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--samples", type=int, default=160)
parser.add_argument("--hidden", type=int, default=32)
parser.add_argument("--layers", type=int, default=1)
parser.add_argument("--micro", type=int, default=None)
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument("--level", default="same_math")
parser.add_argument("--norm", action="store_true")
parser.add_argument("--dropout", type=float, default=0.0)
parser.add_argument("--digest", action="store_true")
parser.add_argument("--clip", type=float, default=0.0)
parser.add_argument("--fault", help="what to do once, before the step of --at: hang, stop, fail")
parser.add_argument("--at", type=int, default=10)
parser.add_argument("--late", type=float, default=0.0, help="seconds by which state comes late")
parser.add_argument("--watch", action="store_true", help="look out for what should not happen")
options = parser.parse_args()
folder = Path(os.environ.get("WEFT_TEST_OUT", "."))


class Table(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Samples that can be told apart and learnt from."""

    def __init__(self, samples: int) -> None:
        generator = torch.Generator().manual_seed(1)
        self.x = torch.randn(samples, 8, generator=generator)
        self.y = self.x.sum(1, keepdim=True).sin()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.x[index], self.y[index]


def network() -> nn.Module:
    """Deep enough to have several kinds of state."""
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Linear(8, options.hidden)]
    for _ in range(options.layers):
        layers += [nn.Tanh(), nn.Linear(options.hidden, options.hidden)]
        if options.norm:
            layers.append(nn.BatchNorm1d(options.hidden))
    return nn.Sequential(*layers, nn.Dropout(options.dropout), nn.Linear(options.hidden, 1))


def misbehave(step: int) -> None:
    """What users' programs do: once, in the worker that comes first to that step."""
    if options.fault is None or step != options.at:
        return
    try:
        (folder / "misbehaved").touch(exist_ok=False)
    except FileExistsError:
        return
    if options.fault == "hang":
        time.sleep(3600)
    elif options.fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        raise SystemExit(3)


def unpack_late(packed: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    """As on a slow network: the step is summed long before its newcomers have the state."""
    time.sleep(options.late)
    unpack(packed, tensors)


unpack, transfer._unpack = transfer._unpack, unpack_late


class Watch:
    """What the process does that it should not, and what it imports after it has warmed up."""

    def __init__(self) -> None:
        self.unpickled: list[str] = []
        self._known = set(sys.modules)
        sys.addaudithook(self._hear)

    def warmed(self) -> None:
        self._known = set(sys.modules)

    @property
    def late(self) -> list[str]:
        return sorted(name for name in set(sys.modules) - self._known if name.startswith("torch"))

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "pickle.find_class":
            self.unpickled.append(str(arguments))


table = Table(options.samples)
model, opt, sched = weft.prepare(
    network(),
    lambda parameters: torch.optim.AdamW(parameters, 1e-2),
    lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99),
    determinism=options.level,
)
loader = weft.loader(table, options.batch, seed=3, micro=options.micro)
log = (folder / f"steps-{worker}.jsonl").open("a", buffering=1)


def write(**facts: object) -> None:
    """One line, written at once."""
    log.write(json.dumps({"time": time.monotonic(), "worker": worker, **facts}) + "\n")


write(began=os.getpid())
watch = Watch() if options.watch else None
for mb in weft.steps(loader, total=options.total):
    session = current()
    idle = mb.warmup or not session._share_weight
    epoch = session._turn_epoch
    if not mb.warmup:
        misbehave(mb.step)
    loss = nn.functional.mse_loss(model(mb.x), mb.y)
    weft.backward(loss)
    if options.clip:
        nn.utils.clip_grad_norm_(model.parameters(), options.clip)
    if options.pause and not (folder / "hurry").exists():
        time.sleep(options.pause)
    write(took=[] if idle else list(mb.ids), of=mb.step, epoch=epoch)
    opt.step()
    opt.zero_grad()
    sched.step()
    write(
        step=session.committed if weft.stepped() else mb.step,
        stepped=weft.stepped() and not mb.warmup,
        warmup=mb.warmup,
        epoch=epoch,
        loss=loss.item(),
        width=session.width,
        digest=session.book.digest() if options.digest and weft.stepped() else None,
    )
    weft.metric(loss=loss.item(), no_number=float("nan"))
    if watch:
        importlib.import_module("torch.utils.benchmark")  # as torch itself does with dynamo
        if mb.warmup:
            watch.warmed()

if watch:
    write(late=watch.late, unpickled=watch.unpickled)
digest = current().book.digest()  # of a sharded model, before a forward pass gathers it
model.eval()
with torch.no_grad():
    loss = nn.functional.mse_loss(model(table.x), table.y)
write(final=True, digest=digest, loss=loss.item())
