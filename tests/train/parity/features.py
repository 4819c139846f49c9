"""The rows of the table."""

from collections.abc import Iterable
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import (
    LBFGS,
    SGD,
    Adafactor,
    Adagrad,
    Adam,
    AdamW,
    NAdam,
    Optimizer,
    RMSprop,
    SparseAdam,
)
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, ReduceLROnPlateau
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import weft
from tests.train.parity import models
from tests.train.parity.feature import STEPS, WIDE, Feature, Live, mean_square, table
from weft.train.api import current
from weft.train.drive import in_a_world

Parameters = Iterable[nn.Parameter]


def clip_norm(live: Live) -> None:
    nn.utils.clip_grad_norm_(live.model.parameters(), 0.2)


def clip_value(live: Live) -> None:
    """It falls over where there is no gradient to be seen: a script asks `if mb.last:`."""
    if any(one.grad is not None for one in live.model.parameters()):
        nn.utils.clip_grad_value_(live.model.parameters(), 0.05)


def thaw(live: Live) -> None:
    """The first layer joins later, the last one leaves."""
    first, *_, last = live.model.parameters()
    first.requires_grad_(live.step >= STEPS // 4)
    last.requires_grad_(live.step < STEPS // 2)


def momentum(parameters: Parameters) -> Optimizer:
    return SGD(parameters, 0.05, momentum=0.9, nesterov=True, weight_decay=0.01)


def in_groups(parameters: Parameters) -> Optimizer:
    """Weights decay, biases do not, and both have a rate of their own."""
    every = list(parameters)
    flat = [one for one in every if one.ndim == 1]
    rest = [one for one in every if one.ndim != 1]
    return AdamW([{"params": rest, "weight_decay": 0.1}, {"params": flat, "lr": 0.002}], 0.01)


def outside(parameters: Parameters) -> Optimizer:
    return SGD([*parameters, nn.Parameter(torch.ones(()))], 0.05)


def with_temperature(live: Live, x: Tensor, y: Tensor) -> Tensor:
    temperature = live.opt.param_groups[0]["params"][-1]
    found: Tensor = live.model(x) * temperature
    return (found - y).square().mean()


def tokens(x: Tensor) -> Tensor:
    """How many numbers of a row count: some rows have none."""
    counts = (x[:, 0].abs() * 3).long() % WIDE
    return (torch.arange(3) < counts[:, None]).to(x.dtype)


def over_tokens(live: Live, x: Tensor, y: Tensor) -> Tensor:
    mask = tokens(x)
    wrong: Tensor = (live.model(x) - y).square()
    return (wrong * mask).sum() / mask.sum()


CLASSES: Final = (0.2, 1.0, 3.0)


def over_classes(live: Live, x: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(live.model(x), y.argmax(-1), weight=torch.tensor(CLASSES))


def of_classes(x: Tensor, y: Tensor) -> Tensor:
    return torch.tensor(CLASSES)[y.argmax(-1)].sum()


def penalised(live: Live, x: Tensor, y: Tensor) -> Tensor:
    """How fast the output changes with the input is part of the loss."""
    x = x.detach().requires_grad_()
    found: Tensor = live.model(x)
    (slope,) = torch.autograd.grad(found.sum(), x, create_graph=True)
    return (found - y).square().mean() + slope.square().sum(1).mean()


def looked_at(live: Live, x: Tensor, y: Tensor) -> Tensor:
    """A gradient that is not applied, of a graph that is used again."""
    loss = mean_square(live, x, y)
    torch.autograd.grad(loss, list(live.model.parameters()), retain_graph=True)
    return loss


def detached(live: Live, x: Tensor, y: Tensor) -> Tensor:
    """A target that is the model's own, without a gradient."""
    with torch.no_grad():
        target: Tensor = live.model(x.roll(1, 1))
    found: Tensor = live.model(x)
    return (found - y).square().mean() + 0.1 * (found - target.detach()).abs().mean()


def narrow(live: Live, x: Tensor, y: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        found: Tensor = live.model(x)
    return (found.double() - y).square().mean()


def contrasted(live: Live, x: Tensor, y: Tensor) -> Tensor:
    """Each sample against all others of the batch."""
    found = live.model(x)
    return cross_entropy(found @ y.T, torch.arange(len(x)))


def twice(live: Live, x: Tensor, y: Tensor) -> Tensor:
    import weft  # noqa: PLC0415 - this row is Weft's alone

    weft.backward(mean_square(live, x, y))
    return mean_square(live, x, y)


def by_itself(live: Live, x: Tensor, y: Tensor) -> Tensor:
    mean_square(live, x, y).backward()  # type: ignore[no-untyped-call]
    return mean_square(live, x, y)


def average(model: nn.Module) -> dict[str, Any]:
    following = get_ema_multi_avg_fn(0.9)  # type: ignore[no-untyped-call]
    return {"ema": AveragedModel(model, multi_avg_fn=following)}


def follow(live: Live) -> None:
    live.extra["ema"].update_parameters(live.model)


def scaler(model: nn.Module) -> dict[str, Any]:
    return {"scaler": torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=5)}


def overflowing(live: Live, x: Tensor, y: Tensor) -> Tensor:
    loss = mean_square(live, x, y)
    return loss * float("inf") if live.step in (3, 20) else loss


def unscale(live: Live) -> None:
    live.extra["scaler"].unscale_(live.opt)
    clip_norm(live)


def forget_gradients(live: Live) -> None:
    live.model.zero_grad()
    live.opt.zero_grad(set_to_none=False)


def step_twice(live: Live) -> None:
    live.opt.step()


def by_closure(live: Live) -> None:
    live.opt.step(lambda: 0.0)


def fail(live: Live) -> None:
    if live.step == 2:
        raise ZeroDivisionError("the script's own")


def evaluate(live: Live) -> None:
    live.model.eval()
    with torch.no_grad():
        live.model(torch.ones(2, WIDE))
    live.model.train()


def convert_late(model: nn.Module) -> dict[str, Any]:
    nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-untyped-call]
    return {}


def no_figure_yet(model: nn.Module) -> dict[str, Any]:
    return {"found": {}}


def measure(live: Live) -> None:
    """Each worker has its part of the table, and the figure is that of the whole."""
    from torchmetrics import MeanSquaredError  # noqa: PLC0415 - it is slow to import

    elastic = in_a_world()
    rank, width = (current().rank, current().width) if elastic else (0, 1)
    sync: dict[str, Any] = {
        "dist_sync_fn": weft.gather,
        "distributed_available_fn": weft.stepped,
    }
    metric = MeanSquaredError(**(sync if elastic else {}))
    x, y = (column[rank::width].contiguous() for column in table())
    with torch.no_grad():
        metric.update(live.model(x), y)
    live.extra["found"]["error"] = metric.compute()


FEATURES: Final = (
    Feature("plain", "one loss, one optimizer"),
    Feature("accumulation", "gradient accumulation, by `micro`", micro=2),
    Feature("few-samples", "fewer samples than workers in a step", batch=2),
    Feature("clip-norm", "clipping by norm", summed=clip_norm),
    Feature("clip-value", "clipping by value, with accumulation", summed=clip_value, micro=3),
    Feature("shared", "a layer that is used three times", models.shared),
    Feature("freezing", "layers frozen and unfrozen on the way", before=thaw, optimizer=momentum),
    Feature("sparse", "`Embedding(sparse=True)`", models.sparse),
    Feature("own-gradient", "an autograd function of one's own", models.own_gradient),
    Feature(
        "checkpoint-reentrant",
        "activation checkpointing, reentrant",
        lambda: models.checkpointed(reentrant=True),
        ddp="fails",
    ),
    Feature(
        "checkpoint",
        "activation checkpointing, not reentrant",
        lambda: models.checkpointed(reentrant=False),
    ),
    Feature(
        "branches",
        "layers that few samples use, or nobody, with weight decay",
        models.branches,
        optimizer=lambda p: AdamW(p, 0.01, weight_decay=0.1),
    ),
    Feature(
        "experts",
        "experts with routing by sample",
        models.experts,
        optimizer=lambda p: AdamW(p, 0.01),
    ),
    Feature(
        "tokens",
        "a mean over tokens of unequal lengths, by `weight`",
        loss=over_tokens,
        weight=lambda x, _: tokens(x).sum(),
        ddp="differs",
    ),
    Feature(
        "tokens-accumulated",
        "the same with accumulation: some micro-batches have no token",
        loss=over_tokens,
        weight=lambda x, _: tokens(x).sum(),
        micro=1,
        ddp="differs",
    ),
    Feature(
        "class-weights",
        "`cross_entropy` with weights of classes, by `weight`",
        loss=over_classes,
        weight=of_classes,
        ddp="differs",
    ),
    Feature("early-stop", "`break` out of the loop"),
    Feature("several-loops", "several loops, an evaluation between", loops=3, between=evaluate),
    Feature("error", "an exception of the script", before=fail, refused="the script's own"),
    Feature("layer-norm", "layer norm", lambda: models.with_layer(nn.LayerNorm(8))),
    Feature(
        "batch-norm",
        "batch norm",
        lambda: models.with_layer(nn.BatchNorm1d(8)),
        differs="statistics are those of a micro-batch",
        ddp="differs",
    ),
    Feature(
        "sync-batch-norm",
        "SyncBatchNorm",
        lambda: models.with_layer(nn.SyncBatchNorm(8)),
        refused="SyncBatchNorm",
    ),
    Feature(
        "sync-batch-norm-later",
        "SyncBatchNorm, converted behind `weft.prepare`",
        lambda: models.with_layer(nn.BatchNorm1d(8)),
        extra=convert_late,
        refused="SyncBatchNorm",
    ),
    Feature(
        "torchmetrics",
        "torchmetrics over all workers, with `dist_sync_fn=weft.gather`",
        extra=no_figure_yet,
        between=measure,
    ),
    Feature(
        "dropout",
        "dropout",
        lambda: models.with_layer(nn.Dropout(0.5)),
        differs="masks follow the split of the batch",
        ddp="differs",
    ),
    Feature(
        "contrastive",
        "a loss that compares samples of a batch with each other",
        loss=contrasted,
        differs="each worker compares its own",
        ddp="differs",
    ),
    Feature("lambda-lr", "LambdaLR", scheduler=lambda o: LambdaLR(o, lambda step: 0.97**step)),
    Feature("cosine", "CosineAnnealingLR", scheduler=lambda o: CosineAnnealingLR(o, 20)),
    Feature(
        "plateau",
        "ReduceLROnPlateau by the loss of a step",
        scheduler=lambda o: ReduceLROnPlateau(o, patience=1, threshold=0.2, factor=0.7),
        ddp="differs",
    ),
    Feature("ema", "an average of weights (EMA)", extra=average, after=follow),
    Feature("adamw", "AdamW", optimizer=lambda p: AdamW(p, 0.01)),
    Feature("adam-foreach", "Adam, foreach", optimizer=lambda p: Adam(p, 0.01, foreach=True)),
    Feature("adam-fused", "Adam, fused", optimizer=lambda p: Adam(p, 0.01, fused=True)),
    Feature("amsgrad", "AMSGrad", optimizer=lambda p: Adam(p, 0.01, amsgrad=True)),
    Feature("momentum", "SGD with momentum and decay", optimizer=momentum),
    Feature("adafactor", "Adafactor", optimizer=lambda p: Adafactor(p, 0.05)),
    Feature("nadam", "NAdam", optimizer=lambda p: NAdam(p, 0.01)),
    Feature("adagrad", "Adagrad", optimizer=lambda p: Adagrad(p, 0.05)),
    Feature("rmsprop", "RMSprop, centered", optimizer=lambda p: RMSprop(p, 0.01, centered=True)),
    Feature("lbfgs", "LBFGS", optimizer=LBFGS, refused="LBFGS"),
    Feature("sparse-adam", "SparseAdam", models.sparse, optimizer=SparseAdam, refused="SparseAdam"),
    Feature(
        "two-optimizers",
        "a list of optimizers",
        optimizer=lambda p: [SGD(p, 0.1)],
        refused="several optimizers",
    ),
    Feature("groups", "parameter groups with options of their own", optimizer=in_groups),
    Feature(
        "outside",
        "a parameter beside the model",
        optimizer=outside,
        loss=with_temperature,
        ddp="differs",
    ),
    Feature("hooks", "hooks on gradients", models.hooked),
    Feature("retain-graph", "`autograd.grad(retain_graph=True)` beside it", loss=looked_at),
    Feature("penalty", "a penalty on gradients (double backward)", loss=penalised),
    Feature("no-grad", "parts under `no_grad`, and `detach`", loss=detached),
    Feature("weight-norm", "weight norm (a parametrization)", models.normed_weights),
    Feature("spectral-norm", "spectral norm", models.normed_spectrum),
    Feature("lstm", "LSTM of two layers", models.recurrent),
    Feature("attention", "a transformer layer", models.attentive),
    Feature("complex", "complex parameters", models.Complex),
    Feature(
        "float32",
        "float32 parameters",
        lambda: models.of_type(torch.float32),
        tolerance=1e-5,
    ),
    Feature(
        "bfloat16",
        "bfloat16 parameters",
        lambda: models.of_type(torch.bfloat16),
        tolerance=5e-2,
    ),
    Feature("mixed-types", "parameters of several types", models.mixed_types, tolerance=1e-5),
    Feature("channels-last", "channels_last", models.image),
    Feature("buffers", "buffers that the forward pass changes", models.Counting, ddp="differs"),
    Feature("tied", "tied embeddings", models.tied),
    Feature("zero-grad", "`zero_grad` before the backward pass", before=forget_gradients),
    Feature("closure", "`opt.step(closure)`", summed=by_closure, refused="opt.step(closure)"),
    Feature("step-twice", "`opt.step()` twice", summed=step_twice, refused="opt.step() twice"),
    Feature("twice", "a second `weft.backward`", loss=twice, refused="twice in one micro-batch"),
    Feature("by-itself", "`loss.backward()` beside it", loss=by_itself, refused="by another way"),
    Feature(
        "scaler",
        "GradScaler with clipping, and steps that overflow",
        extra=scaler,
        loss=overflowing,
        summed=unscale,
        tolerance=1e-5,
    ),
    Feature("autocast", "bfloat16 autocast", loss=narrow, tolerance=5e-2),
    Feature("compile", "`torch.compile`", models.compiled, pace=0.3),
    Feature("stream", "an IterableDataset", stream=True),
    Feature("threads", "a loader with four threads", threads=4),
)
# Through all changes: one row of each kind of state, samples, sums and loops. Others differ from
# one of these only in what a worker computes by itself.
RESIZED: Final = frozenset(
    {
        "plain",
        "accumulation",
        "few-samples",
        "freezing",
        "sparse",
        "branches",
        "tokens-accumulated",
        "early-stop",
        "several-loops",
        "torchmetrics",
        "cosine",
        "plateau",
        "ema",
        "adamw",
        "adafactor",
        "groups",
        "outside",
        "hooks",
        "weight-norm",
        "spectral-norm",
        "complex",
        "bfloat16",
        "mixed-types",
        "channels-last",
        "buffers",
        "tied",
        "scaler",
        "compile",
        "stream",
        "threads",
    }
)
# With communication="ddp": all at three workers; alone where sums are odd.
ODD_SUMS: Final = frozenset(
    {
        "plain",
        "accumulation",
        "few-samples",
        "freezing",
        "checkpoint-reentrant",
        "branches",
        "tokens-accumulated",
        "ema",
        "outside",
        "hooks",
        "buffers",
        "scaler",
    }
)
# Of these through all changes: micro-batches, layers without a gradient, weights, state beside it.
RESIZED_BY_DDP: Final = frozenset(
    {"accumulation", "branches", "tokens-accumulated", "outside", "buffers", "scaler"}
)
BY_NAME: Final = {feature.name: feature for feature in FEATURES}
assert len(BY_NAME) == len(FEATURES)
