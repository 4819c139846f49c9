"""What a job's model, its commands by plan and its GPUs have to do with each other."""

from typing import Final

from weft.model.capability import Capability
from weft.spec.model_claims import ModelClaims
from weft.spec.plan_commands import PlanCommands
from weft.spec.strict import wrong

ANY_PROGRAM: Final = frozenset({Capability.DATA, Capability.FSDP2, Capability.HYBRID})
"""As what a script that trains with Weft's library can be run, whatever it says."""

BY_LIBRARY: Final = ANY_PROGRAM | {Capability.TENSOR, Capability.PIPELINE}


def refuse_odd_plans(model: ModelClaims | None, plans: PlanCommands | None, *, gpus: int) -> None:
    """Where one of them would have no effect, or another one than meant."""
    if model is None:
        if plans is not None:
            raise wrong(
                "commands by plan are of no use without the model's shape",
                hint="add model with parameters, layers, hidden, sequence and batch",
                field="plans",
            )
        return
    if not gpus:
        raise wrong(
            "a job without GPUs has none to split a model over",
            hint="remove model, or ask for gpus",
            field="model",
        )
    if plans is not None and model.offers is not None:
        raise wrong(
            "what the program offers follows from its commands",
            hint="remove model.offers, or plans",
            field="model",
        )
    beyond = sorted(set(model.offers or ()) - BY_LIBRARY)
    if beyond:
        raise wrong(
            f"Weft's library does not run a model by {', '.join(beyond)}",
            hint=f"offer some of {', '.join(sorted(BY_LIBRARY))}, or give commands under plans",
            field="model",
        )
