"""A model file: the shape of a model and what its program offers, for asking about plans."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from weft.model.capability import EVERYTHING, Capability
from weft.model.claim import PlanClaim
from weft.model.shape import ModelShape
from weft.spec.document import parse_document, read_bounded
from weft.spec.fault import shown
from weft.spec.reading import validated
from weft.spec.strict import Strict, told, wrong

OFFERED = tuple(sorted(one.value for one in EVERYTHING))


def _offered(written: str) -> str:
    if written not in OFFERED:
        raise wrong(f"{shown(written)} is none of them", hint=f"one of: {', '.join(OFFERED)}")
    return written


Offer = Annotated[str, AfterValidator(_offered)]
Count = Annotated[int, Field(ge=1)]


class ModelFile(Strict):
    """What plans are foretold from."""

    parameters: Count = told(..., "All parameters.", allowed="≥ 1", example=6_738_415_616)
    layers: Count = told(..., "Equal blocks.", allowed="≥ 1", example=32)
    hidden: Count = told(..., "Hidden size.", allowed="≥ 1", example=4096)
    sequence: Count = told(..., "Tokens of a sample.", allowed="≥ 1", example=2048)
    batch: Count = told(..., "Samples of a step, over all GPUs.", allowed="≥ 1", example=16)
    vocabulary: int = told(0, "Entries of the embedding.", allowed="≥ 0", example=32_000, ge=0)
    heads: int = told(0, "Attention heads; 0: as usual.", allowed="≥ 0", example=32, ge=0)
    offers: tuple[Offer, ...] = told(
        OFFERED,
        "What the program can run.",
        allowed=", ".join(OFFERED),
        example=["data", "tensor"],
        strict=False,
    )

    def claim(self) -> PlanClaim:
        shape = ModelShape(
            parameters=self.parameters,
            layers=self.layers,
            hidden=self.hidden,
            sequence=self.sequence,
            vocabulary=self.vocabulary,
            heads=self.heads,
        )
        return PlanClaim(shape, self.batch, tuple(Capability(one) for one in sorted(self.offers)))


def read_model_file(path: Path) -> ModelFile:
    document = parse_document(read_bounded(path), name=path.name)
    return validated(ModelFile, document.value, name=path.name, lines=document.lines)
