"""The model that a job trains, as its owner claims it: what plans are foretold from.

Whoever says nothing keeps the plan that the command has. The same fields make a model file, for
asking about plans before there is a job.
"""

from typing import Annotated, Final

from pydantic import AfterValidator, Field, model_validator

from weft.model.capability import EVERYTHING, Capability, Offers
from weft.model.claim import PlanClaim
from weft.model.errors import SpecError
from weft.model.shape import ModelShape
from weft.spec.fault import shown
from weft.spec.strict import Strict, told, wrong

OFFERED: Final = tuple(sorted(one.value for one in EVERYTHING))
MOST_PARAMETERS: Final = 10**14
MOST_LAYERS: Final = 10_000
MOST_HIDDEN: Final = 10**6
MOST_SEQUENCE: Final = 10**8
MOST_BATCH: Final = 10**6
MOST_VOCABULARY: Final = 10**7
MOST_HEADS: Final = 10**4


def _offered(written: str) -> str:
    if written not in OFFERED:
        raise wrong(f"{shown(written)} is none of them", hint=f"one of: {', '.join(OFFERED)}")
    return written


Offer = Annotated[str, Field(json_schema_extra={"enum": list(OFFERED)}), AfterValidator(_offered)]


class ModelClaims(Strict):
    """The shape of a model, its global batch, and what its program can run."""

    parameters: Annotated[int, Field(ge=1, le=MOST_PARAMETERS)] = told(
        ...,
        "All parameters, those of the embedding and the head among them.",
        allowed=f"a whole number 1 to {MOST_PARAMETERS}",
        example=6_738_415_616,
    )
    layers: Annotated[int, Field(ge=1, le=MOST_LAYERS)] = told(
        ...,
        "Equal blocks of the model.",
        allowed=f"a whole number 1 to {MOST_LAYERS}",
        example=32,
    )
    hidden: Annotated[int, Field(ge=1, le=MOST_HIDDEN)] = told(
        ..., "Hidden size.", allowed=f"a whole number 1 to {MOST_HIDDEN}", example=4096
    )
    sequence: Annotated[int, Field(ge=1, le=MOST_SEQUENCE)] = told(
        ..., "Tokens of a sample.", allowed=f"a whole number 1 to {MOST_SEQUENCE}", example=2048
    )
    batch: Annotated[int, Field(ge=1, le=MOST_BATCH)] = told(
        ...,
        "Samples of a step, over all GPUs. No plan changes it.",
        allowed=f"a whole number 1 to {MOST_BATCH}",
        example=16,
    )
    vocabulary: Annotated[int, Field(ge=1, le=MOST_VOCABULARY)] | None = told(
        None,
        "Entries of the embedding; without it, it has no part in time and memory.",
        allowed=f"a whole number 1 to {MOST_VOCABULARY}",
        example=32_000,
    )
    heads: Annotated[int, Field(ge=1, le=MOST_HEADS)] | None = told(
        None,
        "Attention heads; without it, one for each 128 of the hidden size.",
        allowed=f"a whole number 1 to {MOST_HEADS}",
        example=32,
    )
    offers: Annotated[list[Offer], Field(min_length=1, max_length=len(OFFERED))] | None = told(
        None,
        "As what the program can be run, and as nothing else. Without it a job that trains with "
        "Weft's library is replicated and sharded, and as soon as it has begun, run as whatever "
        "it tells to offer.",
        allowed=", ".join(OFFERED),
        example=["data", "fsdp2", "tensor"],
    )

    def claim(self, otherwise: Offers) -> PlanClaim:
        """As the brain takes it; of one that names no offers, with these `otherwise`."""
        named = None if self.offers is None else frozenset(map(Capability, self.offers))
        return PlanClaim(self.shape, self.batch, tuple(sorted(named or otherwise)))

    @property
    def shape(self) -> ModelShape:
        return ModelShape(
            parameters=self.parameters,
            layers=self.layers,
            hidden=self.hidden,
            sequence=self.sequence,
            vocabulary=self.vocabulary or 0,
            heads=self.heads or 0,
        )

    @model_validator(mode="after")
    def _can_be(self) -> "ModelClaims":
        try:
            _ = self.shape
        except SpecError as error:
            raise wrong(str(error), hint=error.hint, field="parameters") from None
        return self
