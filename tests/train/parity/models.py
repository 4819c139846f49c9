"""Small networks, each with one thing in it that a sum of gradients may get wrong."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from torch.utils.checkpoint import checkpoint

from tests.train.parity.feature import WANTED, WIDE

WORDS = 11


def words_of(x: Tensor) -> Tensor:
    return (x.abs() * 10).long() % WORDS


class Net(nn.Module):
    """Parts by name, and how a batch goes through them."""

    def __init__(self, run: Callable[["Net", Tensor], Tensor], **parts: nn.Module) -> None:
        super().__init__()
        self.run = run
        self.parts = nn.ModuleDict(parts)

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self, x)

    def __getitem__(self, name: str) -> nn.Module:
        return self.parts[name]


def shared() -> nn.Module:
    def run(net: Net, x: Tensor) -> Tensor:
        for _ in range(3):
            x = net["block"](x).tanh()
        return net["head"](x)  # type: ignore[no-any-return]

    return Net(run, block=nn.Linear(WIDE, WIDE), head=nn.Linear(WIDE, WANTED))


def checkpointed(*, reentrant: bool) -> nn.Module:
    def run(net: Net, x: Tensor) -> Tensor:
        x = net["first"](x)
        for _ in range(2):
            x = checkpoint(net["block"], x, use_reentrant=reentrant).tanh()
        return net["head"](x)  # type: ignore[no-any-return]

    return Net(
        run,
        first=nn.Linear(WIDE, WIDE),
        block=nn.Linear(WIDE, WIDE),
        head=nn.Linear(WIDE, WANTED),
    )


def branches() -> nn.Module:
    """One layer that nobody uses, and one that few batches do."""

    def run(net: Net, x: Tensor) -> Tensor:
        few = x[:, :1] > 1.8
        found = net["usual"](x)
        return torch.where(few, net["seldom"](x), found) if few.any() else found

    parts = {name: nn.Linear(WIDE, WANTED) for name in ("usual", "seldom", "never")}
    return Net(run, **parts)


def experts() -> nn.Module:
    def run(net: Net, x: Tensor) -> Tensor:
        gates = net["gate"](x).softmax(-1)
        best = gates.argmax(-1)
        found = torch.zeros(len(x), WANTED, dtype=x.dtype)
        for number in range(4):
            mine = best == number
            if mine.any():
                made = net[f"expert{number}"](x[mine]) * gates[mine, number, None]
                found = found.index_put((mine.nonzero()[:, 0],), made)
        return found

    made = {f"expert{number}": nn.Linear(WIDE, WANTED) for number in range(4)}
    return Net(run, gate=nn.Linear(WIDE, 4), **made)


def sparse() -> nn.Module:
    return Net(
        lambda net, x: net["head"](net["words"](words_of(x)).mean(1)),
        words=nn.Embedding(WORDS, 5, sparse=True),
        head=nn.Linear(5, WANTED),
    )


def tied() -> nn.Module:
    """The embedding is also what scores are made with."""

    def run(net: Net, x: Tensor) -> Tensor:
        words, table = words_of(x), net["words"].get_parameter("weight")
        hidden = net["body"](embedding(words, table)).tanh().mean(1)
        return hidden @ table.T[:, :WANTED]  # type: ignore[no-any-return]

    return Net(run, words=nn.Embedding(WORDS, 5), body=nn.Linear(5, 5))


def recurrent() -> nn.Module:
    return Net(
        lambda net, x: net["head"](net["lstm"](x[:, :, None])[0][:, -1]),
        lstm=nn.LSTM(1, 5, num_layers=2, batch_first=True),
        head=nn.Linear(5, WANTED),
    )


def attentive() -> nn.Module:
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    return Net(
        lambda net, x: net["head"](net["layer"](net["first"](x[:, :, None])).mean(1)),
        first=nn.Linear(1, 4),
        layer=layer,
        head=nn.Linear(4, WANTED),
    )


class Complex(nn.Module):
    """A spectrum that is learnt."""

    def __init__(self) -> None:
        super().__init__()
        self.spectrum = nn.Parameter(torch.randn(WIDE // 2 + 1, dtype=torch.complex128))
        self.head = nn.Linear(WIDE, WANTED)

    def forward(self, x: Tensor) -> Tensor:
        mixed = torch.fft.irfft(torch.fft.rfft(x) * self.spectrum, n=WIDE)
        found: Tensor = self.head(mixed)
        return found


class Counting(nn.Module):
    """Buffers that the forward pass changes, and one that is not kept."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(WIDE, WANTED)
        self.register_buffer("average", torch.zeros(WIDE))
        self.register_buffer("passing", torch.ones(1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.average.copy_(0.9 * self.average + 0.1 * x.mean(0))  # type: ignore[operator]
        found: Tensor = self.body(x) * self.passing
        return found


class Doubled(torch.autograd.Function):
    """A function with a gradient of its own: twice what it should be."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, grad: Tensor) -> Tensor:
        return grad * 2


def own_gradient() -> nn.Module:
    return Net(lambda net, x: Doubled.apply(net["body"](x)), body=nn.Linear(WIDE, WANTED))


def hooked() -> nn.Module:
    """The gradient of one weight is halved on its way."""
    made = nn.Linear(WIDE, WANTED)
    made.weight.register_hook(lambda grad: grad / 2)  # type: ignore[no-untyped-call]
    return made


def image() -> nn.Module:
    made = nn.Sequential(nn.Unflatten(1, (WIDE, 1, 1)), nn.Conv2d(WIDE, 4, 1), nn.Flatten())
    made.append(nn.Linear(4, WANTED))
    return made.to(memory_format=torch.channels_last)


def normed_weights() -> nn.Module:
    return nn.Sequential(weight_norm(nn.Linear(WIDE, 5)), nn.Tanh(), nn.Linear(5, WANTED))


def normed_spectrum() -> nn.Module:
    return nn.Sequential(spectral_norm(nn.Linear(WIDE, 5)), nn.Tanh(), nn.Linear(5, WANTED))


def with_layer(layer: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(WIDE, 8), layer, nn.Tanh(), nn.Linear(8, WANTED))


def of_type(dtype: torch.dtype) -> nn.Module:
    made = nn.Sequential(nn.Linear(WIDE, 8), nn.Tanh(), nn.Linear(8, WANTED)).to(dtype)
    return Net(lambda net, x: net["body"](x.to(dtype)).to(x.dtype), body=made)


def mixed_types() -> nn.Module:
    """Half precision before and behind what is exact: the last bucket cannot count."""

    def run(net: Net, x: Tensor) -> Tensor:
        return net["head"](net["body"](x.float()).double()).float().double()  # type: ignore[no-any-return]

    return Net(run, body=nn.Linear(WIDE, 8).float(), head=nn.Linear(8, WANTED))


def compiled() -> nn.Module:
    made = nn.Sequential(nn.Linear(WIDE, 8), nn.Tanh(), nn.Linear(8, WANTED))
    return torch.compile(made, backend="aot_eager")  # type: ignore[return-value]
