"""What a program offers: functions by which torch's own parts can cut its model.

Replicating a model and sharding it by FSDP2 need no word of the program. Where its tensors can be
split, and where it can be cut into stages, only the program knows: it says so by functions, and
what it says none of is never asked of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from torch import Tensor, nn

from weft.agent.plan import Plan
from weft.model.errors import SpecError

Cut = Callable[[Any, Any], nn.Module | None]
"""Gets the whole model and the mesh of those who share it; gives what is this worker's."""

Loss = Callable[..., Tensor]
"""Of the model's output and the rest of what it was called with, as a mean over samples."""

TENSOR: Final = "tensor"
PIPELINE: Final = "pipeline"
KNOWN: Final = (TENSOR, PIPELINE)
ALWAYS: Final = ("data", "fsdp2", "hybrid")  # what any program can run as


@dataclass(frozen=True, slots=True)
class Hooks:
    """Of one program."""

    tensor: Cut | None = None
    pipeline: Cut | None = None
    loss: Loss | None = None
    block: type[nn.Module] | None = None

    @property
    def offers(self) -> tuple[str, ...]:
        """The capabilities that the scheduler may count on."""
        more = [name for name in KNOWN if getattr(self, name) is not None]
        return (*ALWAYS, *more)

    def check(self, plan: Plan) -> None:
        """Refuse a plan that the program has not offered."""
        for name in KNOWN:
            if getattr(plan, name) > 1 and getattr(self, name) is None:
                raise SpecError(
                    f"the plan {plan} splits a model that says nothing of {name}",
                    hint=f"weft.prepare(..., plans={{'{name}': function}}) says how",
                )


def hooks_of(
    plans: Mapping[str, Cut] | None, loss: Loss | None, block: type[nn.Module] | None
) -> Hooks:
    """What was said to `weft.prepare`."""
    given = dict(plans or {})
    if unknown := sorted(set(given) - set(KNOWN)):
        raise SpecError(
            f"plans={{{unknown[0]!r}: ...}} is no way to cut a model",
            hint=f"write one of {', '.join(KNOWN)}; replicas and shards need no function",
        )
    if PIPELINE in given and loss is None:
        raise SpecError(
            "a model in stages has its loss on the last one only",
            hint="give weft.prepare(..., loss=loss_fn), and write loss = model(x, y) in the loop",
        )
    return Hooks(given.get(TENSOR), given.get(PIPELINE), loss, block)
