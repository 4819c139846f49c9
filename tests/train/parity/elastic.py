"""A feature as a script with Weft's five lines, run by tests and by an agent.

python elastic.py <feature> <pause> [ddp]      writes what it has learnt to WEFT_TEST_OUT
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import IterableDataset, TensorDataset

import weft
from tests.train.parity.feature import STEPS, Feature, Live, state_of, table
from weft.train.api import current
from weft.train.data.loader import Loader


class Stream(IterableDataset[tuple[Tensor, Tensor]]):
    """The table, readable in turn only."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return zip(*table(), strict=True)


def train(
    feature: Feature, told: Callable[[int], None] = lambda _: None, communication: str = "weft"
) -> dict[str, list[float]]:
    """What the program has learnt in the end."""
    live, loader = start(feature, communication)
    for loop in range(feature.loops):
        end = feature.last_step * (loop + 1) // feature.loops
        early = feature.name == "early-stop"
        for mb in weft.steps(loader, total=1000 if early else end):
            if early and mb.step >= end:
                break
            live.step = mb.step
            one_micro_batch(feature, live, *mb)
            if weft.stepped() and not mb.warmup:
                told(current().committed)
        if weft.stepped():
            feature.between(live)
    return state_of(live)


def start(feature: Feature, communication: str) -> tuple[Live, Loader]:
    torch.manual_seed(0)
    made = feature.model()
    if feature.scheduler is None:
        model, opt = weft.prepare(made, feature.optimizer, communication=communication)
        live = Live(model, opt, feature.extra(model))
    else:
        model, opt, scheduler = weft.prepare(
            made, feature.optimizer, feature.scheduler, communication=communication
        )
        live = Live(model, opt, feature.extra(model), scheduler)
    weft.state(**{name: one for name, one in live.extra.items() if not isinstance(one, dict)})
    data = Stream() if feature.stream else TensorDataset(*table())
    loader = weft.loader(
        data, feature.batch, shuffle=False, micro=feature.micro, workers=feature.threads
    )
    return live, loader


def one_micro_batch(feature: Feature, live: Live, x: Tensor, y: Tensor) -> None:
    scaler = live.extra.get("scaler")
    feature.before(live)
    live.loss = feature.loss(live, x, y)
    loss = scaler.scale(live.loss) if scaler else live.loss
    weft.backward(loss, weight=None if feature.weight is None else feature.weight(x, y))
    feature.summed(live)
    if scaler:
        scaler.step(live.opt)
        scaler.update()
    else:
        live.opt.step()
    live.opt.zero_grad()
    if weft.stepped():
        feature.after(live)
    if live.scheduler is not None:
        told = isinstance(live.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
        live.scheduler.step(*((live.loss.item(),) if told else ()))


def main() -> None:
    from tests.train.parity.features import BY_NAME  # noqa: PLC0415 - it makes all of them

    torch.set_default_dtype(torch.float64)
    folder, worker = Path(os.environ["WEFT_TEST_OUT"]), os.environ.get("WEFT_WORKER", "alone")
    with (folder / f"steps-{worker}.jsonl").open("a", buffering=1) as log:

        def told(step: int) -> None:
            log.write(json.dumps({"worker": worker, "step": step, "stepped": True}) + "\n")
            if not (folder / "hurry").exists():  # the last steps wait for what is yet to happen
                time.sleep(float(sys.argv[2]) * (1 if step < STEPS // 2 else 10))

        found = train(BY_NAME[sys.argv[1]], told, *sys.argv[3:])
        log.write(json.dumps({"worker": worker, "final": True, "state": found}) + "\n")


if __name__ == "__main__":
    main()
