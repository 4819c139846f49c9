"""Loops as people write them, one kind at a time; the last line tells the weights."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import weft
from weft.train.api import current
from weft.train.data.loader import MicroBatch

kind, pause = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
folder = Path(os.environ.get("WEFT_TEST_OUT", "."))
worker = os.environ.get("WEFT_WORKER", "alone")
log = (folder / f"steps-{worker}.jsonl").open("a", buffering=1)
TOTAL = 60

generator = torch.Generator().manual_seed(1)
table = TensorDataset(*(torch.randn(96, 4, generator=generator) for _ in range(2)))
torch.manual_seed(0)
nets = nn.ModuleDict({name: nn.Linear(4, 4) for name in ("first", "second", "head")})
if kind == "freezing":
    nets["first"].requires_grad_(False)
model, opt = weft.prepare(nets, lambda p: torch.optim.AdamW(p, 1e-2))
micro = 2 if kind in ("accumulation", "clip") else None
loader = weft.loader(table, 12, seed=3, micro=micro)


def write(**facts: object) -> None:
    log.write(json.dumps({"time": time.monotonic(), "worker": worker, **facts}) + "\n")


def loss_of(mb: MicroBatch) -> Tensor:
    hidden = nets["second"](nets["first"](mb.x).tanh()).tanh()
    return nn.functional.mse_loss(nets["head"](hidden), mb.y)


def tell(mb: MicroBatch) -> None:
    stepped = weft.stepped() and not mb.warmup
    step = current().committed if stepped else mb.step
    write(step=step, stepped=stepped, warmup=mb.warmup)
    if not (folder / "hurry").exists():
        time.sleep(pause)


def usual(mb: MicroBatch) -> None:
    weft.backward(loss_of(mb))
    opt.step()
    opt.zero_grad()
    tell(mb)


def adversarial() -> None:
    """Two networks that move in turn: one optimizer, and whoever gets no gradient stands still."""
    for mb in weft.steps(loader, total=TOTAL):
        made = nets["first"](mb.x)
        if mb.step % 2:
            seen = nets["second"](made.detach())
        else:
            frozen = {n: p.detach() for n, p in nets["second"].named_parameters()}
            seen = torch.func.functional_call(nets["second"], frozen, made)
        weft.backward((seen - mb.y).square().mean())
        opt.step()
        tell(mb)


def validation() -> None:
    for epoch in range(3):
        for mb in weft.steps(loader, total=(epoch + 1) * TOTAL // 3):
            model.train()
            usual(mb)
        model.eval()
        with torch.no_grad():
            loss_of(MicroBatch(table[:], (), 0, last=True))


def early_break() -> None:
    for mb in weft.steps(loader, total=1000):
        if mb.step >= TOTAL:
            break
        usual(mb)


def early_return() -> None:
    def fit() -> int:
        for mb in weft.steps(loader, total=1000):
            usual(mb)
            if weft.stepped() and not mb.warmup and current().step >= TOTAL:
                return current().step
        raise AssertionError("it was not left")

    assert fit() == TOTAL


def caught() -> None:
    """An error that the script itself takes for the end of its loop."""
    try:
        for mb in weft.steps(loader, total=1000):
            usual(mb)
            if current().step == TOTAL:
                raise StopAsyncIteration
    except StopAsyncIteration:
        pass


def kept() -> None:
    """One generator, gone through in two pieces."""
    batches = weft.steps(loader, total=TOTAL)
    for mb in batches:
        usual(mb)
        if current().committed >= TOTAL // 2:
            break
    for mb in batches:
        usual(mb)


def twice() -> None:
    def fit(total: int) -> None:
        for mb in weft.steps(loader, total=total):
            usual(mb)

    fit(TOTAL // 2)
    fit(TOTAL)


def accumulation() -> None:
    for mb in weft.steps(loader, total=TOTAL):
        weft.backward(loss_of(mb))
        if mb.last:
            opt.step()
            opt.zero_grad(set_to_none=False)
        tell(mb)


def clip() -> None:
    for mb in weft.steps(loader, total=TOTAL):
        model.zero_grad()
        weft.backward(loss_of(mb))
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        opt.step()
        opt.zero_grad(set_to_none=False)
        tell(mb)


def freezing() -> None:
    for mb in weft.steps(loader, total=TOTAL):
        if mb.step == TOTAL // 6:
            nets["first"].requires_grad_(True)
        if mb.step == TOTAL // 2:
            nets["head"].requires_grad_(False)
        usual(mb)


KINDS: dict[str, Callable[[], None]] = {
    "adversarial": adversarial,
    "validation": validation,
    "early_break": early_break,
    "early_return": early_return,
    "caught": caught,
    "kept": kept,
    "twice": twice,
    "accumulation": accumulation,
    "clip": clip,
    "freezing": freezing,
}
if __name__ == "__main__":
    KINDS[kind]()
    weights = [round(value, 6) for p in model.parameters() for value in p.flatten().tolist()]
    write(final=True, steps=current().step, weights=weights, digest=current().book.digest())
