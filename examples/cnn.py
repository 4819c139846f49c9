"""A small convolutional network that tells stripes of four directions apart.

    python examples/cnn.py                             # one process, plain PyTorch
    python -m weft.agent run -n 2 examples/cnn.py      # two workers; then type: resize 3

What makes it elastic is shown as a diff in docs/training.md.
"""

import argparse
import math

import torch
from torch import nn
from torch.utils.data import TensorDataset

import weft

parser = argparse.ArgumentParser(description="Stripes of four directions.")
parser.add_argument("--steps", type=int, default=300, help="optimizer steps")
parser.add_argument("--batch", type=int, default=64, help="samples of a step, over all workers")
parser.add_argument("--samples", type=int, default=2048, help="images to learn from")
parser.add_argument("--channels", type=int, default=16, help="of the first convolution")
options = parser.parse_args()


def stripes(samples: int, seed: int, pixels: int = 16) -> TensorDataset:
    """Noisy stripes, each with a phase of its own; the label is their direction."""
    chance = torch.Generator().manual_seed(seed)
    direction = torch.randint(4, (samples,), generator=chance)
    phase = 2 * math.pi * torch.rand((samples, 1, 1), generator=chance)
    noise = torch.randn((samples, pixels, pixels), generator=chance)
    angle = (direction * math.pi / 4).view(-1, 1, 1)
    row, column = torch.arange(pixels).view(1, -1, 1), torch.arange(pixels).view(1, 1, -1)
    wave = torch.sin(0.9 * (row * angle.cos() + column * angle.sin()) + phase)
    return TensorDataset((wave + noise).unsqueeze(1), direction)


def network(channels: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, padding=1),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(channels, 2 * channels, 3, padding=1),
        nn.BatchNorm2d(2 * channels),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * channels, 4),
    )


torch.manual_seed(0)
images = stripes(options.samples, seed=1)
model, opt = weft.prepare(network(options.channels), lambda p: torch.optim.AdamW(p, lr=3e-3))
loader = weft.loader(images, global_batch=options.batch)

for x, y in weft.steps(loader, total=options.steps):
    loss = nn.functional.cross_entropy(model(x), y)
    weft.backward(loss)
    opt.step()
    opt.zero_grad()

model.eval()
with torch.no_grad():
    x, y = stripes(512, seed=2).tensors
    scores = model(x)
    loss = nn.functional.cross_entropy(scores, y)
    accuracy = (scores.argmax(1) == y).float().mean()
if weft.first():
    print(f"loss {loss:.4f}, accuracy {accuracy:.3f}")
