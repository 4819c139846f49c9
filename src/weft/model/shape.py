"""The shape of a model: what memory and time are computed from.

A shape comes from the job file or is counted from the model itself. Without one nothing is
computed, and the plan stays as written.
"""

from dataclasses import dataclass, fields

from weft.model.errors import SpecError


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A stack of equal transformer blocks between an embedding and a head.

    0 stands for what is usual: as many heads as 128 fit into the hidden size, keys and values of
    each head, an inner layer four times as wide.
    """

    parameters: int
    layers: int
    hidden: int
    sequence: int
    vocabulary: int = 0
    heads: int = 0
    kv_heads: int = 0
    feed_forward: int = 0
    gated: bool = False
    """Whether the inner layer has a gate beside it (SwiGLU): three matrices instead of two."""

    tied: bool = False
    """Whether the head uses the embedding's weights."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 1 if field.name in ("parameters", "layers", "hidden", "sequence") else 0
            if value < least:
                raise SpecError(
                    f"a model with {field.name} {value} cannot be",
                    hint=f"give {field.name} as a whole number of at least {least}",
                )
        if self.block_parameters < 1:
            raise SpecError(
                f"{self.parameters:,} parameters are fewer than its embedding has",
                hint="count all parameters of the model, embedding and head among them",
            )
        if self.attention_heads % (self.kv_heads or self.attention_heads):
            raise SpecError(
                f"{self.attention_heads} heads do not share {self.kv_heads} keys evenly",
                hint="give kv_heads as a divisor of heads",
            )

    @property
    def attention_heads(self) -> int:
        return self.heads or max(1, self.hidden // 128)

    @property
    def kv_share(self) -> float:
        """Keys, or values, over queries."""
        return (self.kv_heads or self.attention_heads) / self.attention_heads

    @property
    def inner(self) -> int:
        """Width of the inner layer of a block."""
        return self.feed_forward or 4 * self.hidden

    @property
    def embedding_parameters(self) -> int:
        return self.vocabulary * self.hidden

    @property
    def head_parameters(self) -> int:
        """Those of the head that are not the embedding's."""
        return 0 if self.tied else self.embedding_parameters

    @property
    def block_parameters(self) -> float:
        """Of one block."""
        return (self.parameters - self.embedding_parameters - self.head_parameters) / self.layers


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Bytes per number: of weights, gradients, activations and what the optimizer keeps."""

    weight: int = 2
    gradient: int = 2
    activation: int = 2
    optimizer: int = 12
    """A master copy and two moments in single precision."""


MIXED = Precision()
SINGLE = Precision(weight=4, gradient=4, activation=4, optimizer=8)
