"""A training script whose every step leaves a line: when, how wide, which samples, which state.

The clock is the monotonic one of the machine, so that lines of several processes and the orders
that were given to them stand on one scale. A step lasts from the end of the loop's body to the next
such end; what the script does for the measurement alone lies outside of it.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import torch

import weft
from benchmarks.runtime.jobs.work import LEARNING_RATE, Table, loss_of, network, parser
from weft.train.api import current
from weft.train.groups.group import Group
from weft.train.membership.handover import Handover

DIGEST_AFTER_STEPS = 4

options_of = parser()
options_of.add_argument("--total", type=int, default=1_000_000)
options_of.add_argument("--level", default="same_math")
options_of.add_argument("--pause", type=float, default=0.0, help="seconds of sleep in each step")
options_of.add_argument("--rate", type=float, default=LEARNING_RATE)
options_of.add_argument("--digest", action="store_true", help="of each epoch with newcomers")
options_of.add_argument("--ends", action="store_true", help="digest of the first and last state")
options_of.add_argument("--ids", action="store_true", help="tell the samples of each step")
options = options_of.parse_args()

waited_seconds = 0.0
agreed = Handover.agreed


def timed_agreed(handover: Handover, everyone: Group) -> int | None:
    """The one wait of a switch that training can notice."""
    global waited_seconds  # noqa: PLW0603 - a script has one loop
    before = time.monotonic()
    try:
        return agreed(handover, everyone)
    finally:
        waited_seconds += time.monotonic() - before


Handover.agreed = timed_agreed  # type: ignore[method-assign,assignment]

table = Table(options.samples, options.features)
model, opt = weft.prepare(
    network(options.features),
    lambda parameters: torch.optim.AdamW(parameters, options.rate),
    determinism=options.level,
)
loader = weft.loader(table, options.batch, seed=3)
session = current()
worker = int(os.environ["WEFT_WORKER"])
log = (Path(os.environ["WEFT_BENCH_OUT"]) / f"steps-{worker}.jsonl").open("a", buffering=1)


def tell(**facts: Any) -> None:
    log.write(json.dumps({"worker": worker, **facts}) + "\n")


def train() -> None:
    global waited_seconds
    epoch, first, ids = -1, -1, list[int]()
    known = not options.ends
    began = time.monotonic()
    for mb in weft.steps(loader, total=options.total):
        if not known and not mb.warmup and session.share_weight:
            known = True
            tell(loaded=session.book.digest())
        loss = loss_of(model, mb.x, mb.y)
        weft.backward(loss)
        opt.step()
        opt.zero_grad()
        if mb.warmup:
            began = time.monotonic()
            continue
        if session.share_weight:
            ids += mb.ids
        if not mb.last:
            continue
        ended = time.monotonic()
        if session._groups.epoch != epoch:
            epoch, first = session._groups.epoch, session.committed
        tell(
            step=session.committed,
            epoch=epoch,
            width=session.width,
            samples=len(ids),
            stepped=weft.stepped(),
            began=began,
            ended=ended,
            waited=waited_seconds,
            **({"ids": ids} if options.ids else {}),
        )
        if options.digest and session.width > 1 and session.step - first == DIGEST_AFTER_STEPS:
            tell(digest=session.book.digest(), step=session.committed)
        ids, waited_seconds = [], 0.0
        time.sleep(options.pause)
        began = time.monotonic()


try:
    train()
finally:
    if options.ends:
        with torch.no_grad():
            last = float(loss_of(model, table.x, table.y))
        tell(final=session.book.digest(), step=session.committed, loss=last)
