"""What a row of the table is made of: a program in pieces that two loops can put together.

The one loop is plain PyTorch over the whole batch (`plain`), the other has Weft's five lines
(`elastic`). They share the pieces and nothing else.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

BATCH, SAMPLES, STEPS, SHORT = 10, 90, 40, 16
WIDE, WANTED = 6, 3


@dataclass
class Live:
    """A program that runs."""

    model: nn.Module
    opt: Optimizer
    extra: dict[str, Any] = field(default_factory=dict)
    scheduler: Any = None
    step: int = 0
    loss: Tensor = field(default_factory=lambda: torch.zeros(()))


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDE, 8), nn.Tanh(), nn.Linear(8, WANTED))


def descent(parameters: Iterable[nn.Parameter]) -> Optimizer:
    return SGD(parameters, 0.05)


def mean_square(live: Live, x: Tensor, y: Tensor) -> Tensor:
    found: Tensor = live.model(x)
    return (found - y).square().mean()


def nothing(live: Live) -> None:
    """No more than usual."""


def no_extra(model: nn.Module) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Feature:
    """One row; `refused` is what the library says, `differs` what the documents say."""

    name: str
    what: str
    model: Callable[[], nn.Module] = perceptron
    optimizer: Callable[[Iterable[nn.Parameter]], Any] = descent
    scheduler: Callable[[Optimizer], Any] | None = None
    extra: Callable[[nn.Module], dict[str, Any]] = no_extra
    loss: Callable[[Live, Tensor, Tensor], Tensor] = mean_square
    weight: Callable[[Tensor, Tensor], Tensor] | None = None
    before: Callable[[Live], None] = nothing
    summed: Callable[[Live], None] = nothing
    after: Callable[[Live], None] = nothing
    between: Callable[[Live], None] = nothing
    loops: int = 1
    last_step: int = STEPS
    batch: int = BATCH
    micro: int | None = None
    threads: int = 0
    stream: bool = False
    pace: float = 0.06  # seconds of a step while workers come and go
    tolerance: float = 1e-6
    refused: str = ""
    differs: str = ""
    ddp: str = "equal"


def short(feature: Feature) -> Feature:
    """The same row in fewer steps, enough for each thing in it to happen at least once."""
    return replace(feature, last_step=SHORT)


def table() -> tuple[Tensor, Tensor]:
    drawn = torch.Generator().manual_seed(7)
    wide, wanted = (
        torch.randn(SAMPLES, size, generator=drawn, dtype=torch.float64) for size in (WIDE, WANTED)
    )
    return wide, wanted


def state_of(live: Live) -> dict[str, list[float]]:
    """All that the program has learnt, as numbers."""
    found = dict(live.model.state_dict())
    for group in live.opt.param_groups:
        for number, one in enumerate(group["params"]):
            if not any(one is other for other in live.model.parameters()):
                found[f"outside.{number}"] = one.detach()
    for name, thing in live.extra.items():
        told = thing if isinstance(thing, dict) else thing.state_dict()
        found |= {f"{name}.{key}": value for key, value in told.items()}
    numbers = {name: _numbers(value) for name, value in found.items()}
    return numbers | {"rates": [float(group["lr"]) for group in live.opt.param_groups]}


def _numbers(value: object) -> list[float]:
    tensor = torch.as_tensor(value).detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return [float(one) for one in tensor.double().flatten().tolist()]


def furthest(one: dict[str, list[float]], other: dict[str, list[float]]) -> float:
    """How far two states are apart, relative to the largest number of each tensor."""
    if one.keys() != other.keys():
        return float("inf")
    worst = 0.0
    for name, numbers in one.items():
        theirs = other[name]
        size = max((abs(number) for number in theirs), default=0.0) or 1.0
        for mine, their in zip(numbers, theirs, strict=True):
            apart = abs(mine - their) / size
            worst = max(worst, float("inf") if math.isnan(apart) else apart)
    return worst
