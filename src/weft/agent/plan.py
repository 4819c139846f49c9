"""An execution plan as agents and workers speak of it: who holds which part of one model.

The scheduler's plan (`weft.model.plan`) says how a job is to be computed; what is left of it on a
machine is how many workers hold a model together, and in which order they stand. These are a
*unit*: they start together, meet inside, and leave together. Units follow each other by the numbers
of their workers, and inside of one the stages of the pipeline come first, then the shards, then the
tensor's parts, so that those who talk most stand next to each other.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from weft.model.errors import SpecError

MOST: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Degrees inside of one unit; as many units as the width gives sum their gradients."""

    pipeline: int = 1
    shard: int = 1
    tensor: int = 1
    micro_batches: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or not 1 <= value <= MOST:
                raise SpecError(
                    f"a plan with {field.name}={value!r}", hint="degrees are numbers, at least 1"
                )

    @property
    def unit(self) -> int:
        """Workers that hold one model together."""
        return self.pipeline * self.shard * self.tensor

    @property
    def copies(self) -> int:
        """Workers of a unit that compute the same samples."""
        return self.pipeline * self.tensor

    @property
    def needs(self) -> frozenset[str]:
        """What a program must offer to be run so; anything can be replicated."""
        degrees = {"pipeline": self.pipeline, "fsdp2": self.shard, "tensor": self.tensor}
        return frozenset(name for name, degree in degrees.items() if degree > 1)

    def reader(self, place: int) -> int:
        """Which of the unit's parts of a batch is computed at that place of it."""
        return place // self.tensor % self.shard

    def to_json(self) -> dict[str, int]:
        """Only what is not as usual."""
        return {name: value for name, value in asdict(self).items() if value != 1}

    def told(self) -> dict[str, int]:
        """For reports and manifests, which speak of `shard` always."""
        return {"shard": self.shard, **self.to_json()}

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.to_json().items()) or "replicated"


REPLICATED: Final = Plan()


def plan_of(told: Mapping[str, Any]) -> Plan:
    """As it was told by a message; refused if it is none."""
    unknown = sorted(set(told) - {field.name for field in fields(Plan)})
    if unknown:
        raise SpecError(f"a plan has no {unknown[0]!r}", hint=f"it has {', '.join(_names())}")
    return Plan(**told)


def parse_plan(text: str) -> Plan:
    """`tensor=2,shard=2`, or JSON as in the environment of a worker; nothing is replicated."""
    if not text or text == str(REPLICATED):
        return REPLICATED
    try:
        if text.startswith("{"):
            return plan_of(json.loads(text))
        pairs = (part.partition("=")[::2] for part in text.split(","))
        return plan_of({name: int(value) for name, value in pairs})
    except ValueError as error:
        raise SpecError(f"{text!r} is no plan", hint="write tensor=2,shard=2") from error


def _names() -> tuple[str, ...]:
    return tuple(field.name for field in fields(Plan))
