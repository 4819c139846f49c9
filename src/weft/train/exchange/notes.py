"""`weft.json` beside exported tensors: where the training stood, and all that is no tensor.

It names each tensor as Weft does and as the format beside it does, so that the way back guesses
nothing. It is a sealed document: what was changed by hand is refused rather than half understood.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.agent.checkpoint import beneath
from weft.agent.checkpoint.document import Fields, Json, seal, unseal
from weft.agent.checkpoint.errors import Damaged
from weft.agent.checkpoint.layout import check_name

NAME: Final = "weft.json"
SCHEMA: Final = "weft-export/1"
MOST_BYTES: Final = 256 << 20
MOST_TEXT: Final = 253


@dataclass(frozen=True, slots=True)
class Notes:
    """What the tensors alone do not say."""

    job: str
    step: int
    samples: int
    torch: str
    tensors: Mapping[str, str]
    facts: Json

    def write(self, folder: Path) -> None:
        (folder / NAME).write_bytes(
            seal(
                {
                    "schema": SCHEMA,
                    "job": self.job,
                    "step": self.step,
                    "samples": self.samples,
                    "torch": self.torch,
                    "tensors": dict(self.tensors),
                    "facts": self.facts,
                }
            )
        )


def read(folder: Path) -> Notes | None:
    """Those of a folder; None where there are none."""
    if not (folder / NAME).exists():
        return None
    with beneath.folder(folder) as within:
        fields = Fields(unseal(beneath.read(NAME, within, most=MOST_BYTES), NAME), NAME)
    fields.only("schema", "job", "step", "samples", "torch", "tensors", "facts")
    if fields.text("schema", most=MOST_TEXT) != SCHEMA:
        raise Damaged(f"{NAME} is of another schema", hint="use the version that wrote it")
    return Notes(
        fields.text("job", most=MOST_TEXT),
        fields.count("step"),
        fields.count("samples"),
        fields.text("torch", most=MOST_TEXT),
        _names(fields.value("tensors")),
        fields.value("facts"),
    )


def _names(told: object) -> dict[str, str]:
    names = told if isinstance(told, dict) else {}
    if not names or not all(isinstance(theirs, str) for theirs in names.values()):
        raise Damaged(f"{NAME} names no tensors")
    for name in names:
        check_name(name)
    return names
