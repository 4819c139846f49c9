"""A feature as a loop of plain PyTorch over whole batches; nothing of Weft is imported here."""

import torch

from tests.train.parity.feature import Feature, Live, state_of, table


def train(feature: Feature) -> dict[str, list[float]]:
    """What the program has learnt in the end."""
    live = start(feature)
    x, y = table()
    ends = [feature.last_step * (loop + 1) // feature.loops for loop in range(feature.loops)]
    for step in range(feature.last_step):
        live.step = step
        rows = torch.arange(step * feature.batch, (step + 1) * feature.batch) % len(x)
        one_step(feature, live, x[rows], y[rows])
        if step + 1 in ends:
            feature.between(live)
    return state_of(live)


def start(feature: Feature) -> Live:
    torch.manual_seed(0)
    model = feature.model()
    optimizer = feature.optimizer(model.parameters())
    scheduler = feature.scheduler(optimizer) if feature.scheduler else None
    return Live(model, optimizer, feature.extra(model), scheduler)


def one_step(feature: Feature, live: Live, x: torch.Tensor, y: torch.Tensor) -> None:
    scaler = live.extra.get("scaler")
    live.opt.zero_grad()
    feature.before(live)
    live.loss = feature.loss(live, x, y)
    (scaler.scale(live.loss) if scaler else live.loss).backward()
    feature.summed(live)
    if scaler:
        scaler.step(live.opt)
        scaler.update()
    else:
        live.opt.step()
    feature.after(live)
    if live.scheduler is not None:
        told = isinstance(live.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
        live.scheduler.step(*((live.loss.item(),) if told else ()))
