"""What a script finds where plain PyTorch has its default process group.

Members come and go, so there is no such group in an elastic job; in a sharded one it is the inside
of one replica. Code that asks for it (`if dist.is_initialized(): ...`, torchmetrics) takes the
answer for that of a single process and would count its own samples alone. So nothing of the kind
passes in silence: a group of the script's own is refused, SyncBatchNorm too, and whoever asks is
told once what to write instead. Torch and the trainers that
Weft has adapters for know what they do.
"""

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any, Final

import torch.distributed as dist
from torch import nn

from weft.model.errors import SpecError

QUESTIONS: Final = ("is_initialized", "get_rank", "get_world_size")
KNOW: Final = ("torch", "weft", "accelerate", "transformers", "lightning", "lightning_fabric")
INSTEAD: Final = (
    "weft.first() tells who writes, weft.mean() and weft.gather() what all workers have; give "
    "torchmetrics dist_sync_fn=weft.gather, distributed_available_fn=weft.stepped"
)


def refuse_own_group() -> None:
    """A group that the script has made keeps its members, and the job does not."""
    if dist.is_initialized():
        raise SpecError(
            "the script has made a process group, which cannot be resized",
            hint=f"leave init_process_group out: {INSTEAD}; for DDP's own sums write "
            "weft.prepare(..., communication='ddp')",
        )


def refuse_sync_batch_norm(model: nn.Module) -> None:
    """Without a group it would silently be a plain one."""
    if any(isinstance(module, nn.SyncBatchNorm) for module in model.modules()):
        raise SpecError(
            "SyncBatchNorm looks for a group of torch's own, and finds none",
            hint="use BatchNorm, or a norm within a sample (LayerNorm, GroupNorm)",
        )


def answer_with_a_word(shard: int) -> None:
    """Let whoever asks torch for the default group be told what the answer means here."""
    group = "the inside of one replica" if shard > 1 else "none"
    text = f"torch.distributed knows of {group} in an elastic job, not of all workers: {INSTEAD}"
    told: set[str] = set()
    for name in QUESTIONS:
        asked = getattr(dist, name)
        if not hasattr(asked, "__wrapped__"):
            setattr(dist, name, _telling(asked, text, told))


def _telling(asked: Callable[..., Any], text: str, told: set[str]) -> Callable[..., Any]:
    @functools.wraps(asked)
    def answered(*given: Any, **named: Any) -> object:
        who = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0]
        if who not in KNOW and not told:
            told.add(who)
            warnings.warn(text, stacklevel=2)
        return asked(*given, **named)

    return answered
