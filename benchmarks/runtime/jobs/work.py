"""What all scripts of this suite train: the same network, optimizer and samples.

Three square layers: their number of parameters, and so the size of the state, grows with the square
of the width, and the time of a step with the batch.
"""

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

LAYERS = 3
LEARNING_RATE = 1e-4


class Table(Dataset[tuple[Tensor, Tensor]]):
    """Samples in memory, each with a class."""

    def __init__(self, samples: int, features: int) -> None:
        generator = torch.Generator().manual_seed(1)
        self.x = torch.randn(samples, features, generator=generator)
        self.y = torch.randint(0, features, (samples,), generator=generator)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]


def parser() -> argparse.ArgumentParser:
    """The options that all scripts have."""
    found = argparse.ArgumentParser()
    found.add_argument("--features", type=int, default=64)
    found.add_argument("--batch", type=int, default=16)
    found.add_argument("--samples", type=int, default=160)
    return found


def network(features: int) -> nn.Module:
    """The same weights whenever it is made."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(LAYERS):
        layers += [nn.Linear(features, features), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(x), y)
