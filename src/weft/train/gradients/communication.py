"""Who sums the gradients: Weft itself, or torch's own wrapper over a group of Weft's."""

from enum import StrEnum

from torch import nn

from weft.agent.plan import Plan
from weft.model.errors import SpecError
from weft.train.gradients.level import Level, reduction_for, summed_buffers
from weft.train.gradients.reducer import Reduction
from weft.train.state.book import StateBook


class Communication(StrEnum):
    """What a script may ask for."""

    WEFT = "weft"
    DDP = "ddp"


WRAPPERS = {
    "DistributedDataParallel": "communication='ddp' keeps DDP's own sums",
    "FullyShardedDataParallel": "weft run --shard n lets n workers hold one model",
    "FSDPModule": "weft run --shard n lets n workers hold one model",
}


def communication_of(word: str, level: Level, plan: Plan, *, fixed: bool) -> Communication:
    """The one that is meant; refused where it cannot be had."""
    if word.lower() in ("fsdp", "fsdp2", "fully_shard"):
        raise SpecError(
            "FSDP over all workers cannot lose one of them: each holds a part that no other has",
            hint="weft run --shard n lets n workers hold one model by FSDP2, and the job be as "
            "many such replicas as there is room for",
        )
    if word not in tuple(Communication):
        known = ", ".join(repr(one.value) for one in Communication)
        raise SpecError(f"there is no communication={word!r}", hint=f"use one of {known}")
    chosen = Communication(word)
    if chosen is Communication.DDP and plan.unit > 1:
        if not fixed:
            return Communication.WEFT  # for as long as the job is under that plan
        raise SpecError(
            f"communication='ddp' with --shard {plan.shard}: DDP wants whole gradients on each "
            "worker",
            hint="leave --shard out, or communication",
        )
    if chosen is Communication.DDP and level is Level.BITWISE:
        raise SpecError(
            "communication='ddp' cannot be bitwise: DDP adds in an order that follows the width",
            hint="use determinism='same_math' with it, or leave communication out",
        )
    return chosen


def reduction_by(
    communication: Communication, level: Level, book: StateBook, parts: int, plan: Plan
) -> Reduction:
    """How gradients are summed."""
    if communication is Communication.DDP:
        from weft.train.gradients.ddp import DdpReduction

        return DdpReduction(book.parameters, summed_buffers(book))
    return reduction_for(level, book, parts, plan)


def refuse_wrapped(model: nn.Module) -> None:
    """A wrapper of the script's own has a group of its own, which keeps its members."""
    for module in model.modules():
        for kind in type(module).__mro__:
            if kind.__name__ in WRAPPERS and kind.__module__.startswith("torch."):
                raise SpecError(
                    f"the model is wrapped in {kind.__name__}, whose group cannot be resized",
                    hint=f"give weft.prepare the model itself; {WRAPPERS[kind.__name__]}",
                )
