"""A small job whose every step leaves lines: which samples, which loss, which state."""

import argparse
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset

import weft
from tests.train.dawdling import DAWDLING
from weft import crash
from weft.train.api import current
from weft.train.groups import backend
from weft.train.membership import transfer

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
parser.add_argument("--communication", default="weft")
parser.add_argument("--norm", action="store_true")
parser.add_argument("--dropout", type=float, default=0.0)
parser.add_argument("--digest", action="store_true")
parser.add_argument("--clip", type=float, default=0.0)
parser.add_argument("--fault", help="what to do once, before the step of --at: hang, stop, fail")
parser.add_argument("--at", type=int, default=10)
parser.add_argument("--late", type=float, default=0.0, help="seconds by which state comes late")
parser.add_argument("--rate", type=float, default=0.0, help="bytes of state in a second")
parser.add_argument("--tear", type=int, default=0, help="which message of the state fails, once")
parser.add_argument("--dawdle", action="store_true", help="sum as a GPU would")
parser.add_argument("--watch", action="store_true", help="look out for what should not happen")
parser.add_argument("--processes", type=int, default=0, help="that read samples")
parser.add_argument("--stream", action="store_true", help="samples can be read in turn only")
parser.add_argument("--telling", action="store_true", help="a stream that knows where it stands")
parser.add_argument("--compile", action="store_true", help="for the sizes that it meets")
parser.add_argument("--fixed", action="store_true", help="micro-batches of one size")
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


class Stream(IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    """The same in turn, with a count of what was read."""

    def __init__(self, samples: int) -> None:
        self.table = Table(samples)
        self.opened = self.given = 0

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        self.opened += 1
        for index in range(len(self.table)):
            self.given += 1
            yield self.table[index]


class Telling(Stream):
    """Knows where it stands."""

    at = 0

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        self.opened += 1
        while self.at < len(self.table):
            self.at, self.given = self.at + 1, self.given + 1
            yield self.table[self.at - 1]
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


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


failing = [options.tear] if worker == "0" else []


def send_late(self: transfer.Sending, joiner: int, raw: torch.Tensor, flights: object) -> None:
    """As on a slow network: the step is computed long before its newcomers have the state."""
    if failing and len(current()._groups.members) > 1 and current().step >= 0:
        failing[0] -= 1
        if failing[0] == 0:
            raise RuntimeError("the cable was pulled")
    time.sleep(options.late + (raw.numel() / options.rate if options.rate else 0.0))
    send(self, joiner, raw, flights)  # type: ignore[arg-type]


send, transfer.Sending._send = transfer.Sending._send, send_late  # type: ignore[method-assign]


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


if options.dawdle:
    backend.BY_DEVICE["cpu"] = DAWDLING
graphs: list[torch.fx.GraphModule] = []


def counted(graph: torch.fx.GraphModule, example: object) -> Callable[..., object]:
    graphs.append(graph)
    return graph.forward


net = network()
if options.compile:
    net.compile(backend=counted, dynamic=False)
table = Table(options.samples)
model, opt, sched = weft.prepare(
    net,
    lambda parameters: torch.optim.AdamW(parameters, 1e-2),
    lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99),
    determinism=options.level,
    communication=options.communication,
)
stream = Telling(options.samples) if options.telling else Stream(options.samples)
loader = weft.loader(
    stream if options.stream or options.telling else table,
    options.batch,
    seed=3,
    micro=options.micro,
    num_workers=options.processes,
    fixed=options.fixed,
)
log = (folder / f"steps-{worker}.jsonl").open("a", buffering=1)


def write(**facts: object) -> None:
    """One line, written at once."""
    log.write(json.dumps({"time": time.monotonic(), "worker": worker, **facts}) + "\n")


write(began=os.getpid(), command=Path("/proc/self/cmdline").read_text().split("\0"))
watch = Watch() if options.watch else None
for mb in weft.steps(loader, total=options.total):
    session = current()
    idle = mb.warmup or not session.share_weight
    epoch = session._turn_epoch
    if not mb.warmup:
        misbehave(mb.step)
    loss = nn.functional.mse_loss(model(mb.x), mb.y)
    weft.backward(loss)
    if options.clip:
        nn.utils.clip_grad_norm_(model.parameters(), options.clip)
    if options.pause and not (folder / "hurry").exists():
        time.sleep(options.pause)
    write(
        took=[] if idle else [number % options.samples for number in mb.ids],
        of=mb.step,
        epoch=epoch,
    )
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
compiled = len(graphs)
digest = current().book.digest()  # of a sharded model, before a forward pass gathers it
model.eval()
with torch.no_grad():
    loss = nn.functional.mse_loss(model(table.x), table.y)
write(
    final=True,
    digest=digest,
    loss=loss.item(),
    opened=stream.opened,
    given=stream.given,
    compiled=compiled,
)
