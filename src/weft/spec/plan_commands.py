"""One command for each family of plans, for programs that know flags and a checkpoint alone.

torchtitan, Megatron and DeepSpeed take their degrees on the command line and go on from a
checkpoint. Such a job says by which command it is started as what, with placeholders where the
degrees go; it goes to another plan by being started anew. What a command has a placeholder for it
can be told, so what the program offers follows from its commands and is said nowhere else.

Text in braces that is no placeholder is refused, because a degree that is misspelt would start the
job under a plan that nobody chose. Doubled braces stand for themselves, and what a shell reads,
`${NAME}`, is left alone.
"""

import re
from difflib import get_close_matches
from typing import Annotated, Final

from pydantic import AfterValidator, Field, model_validator

from weft.model.capability import Capability, PlanFamily
from weft.model.claim import PlanClaim
from weft.model.plan import AS_WRITTEN, ExecutionPlan, Sharding
from weft.spec.command import COMMAND_PATTERN
from weft.spec.fault import shown
from weft.spec.model_claims import ModelClaims
from weft.spec.strict import Strict, told, wrong

IN_BRACES: Final = re.compile(r"\$\{[^}]*\}|\{\{(\w+)\}\}|\{(\w+)\}", re.ASCII)
WORDS: Final = {
    "gpus": "all GPUs of the job",
    "data": "replicas",
    "shard": "replicas that share one copy of the state",
    "tensor": "parts of each tensor",
    "pipeline": "stages",
    "micro_batches": "parts of a replica's samples that flow through the stages",
    "accumulation": "backward passes of a replica for one step",
    "micro_batch": "samples that a replica computes at once",
    "recompute": "true or false: whether activations are computed again",
    "offload": "true or false: whether the optimizer's state is in main memory",
}
TOLD_BY: Final = {
    Capability.HYBRID: ("shard",),
    Capability.TENSOR: ("tensor",),
    Capability.PIPELINE: ("pipeline",),
    Capability.ACCUMULATION: ("accumulation", "micro_batch"),
    Capability.RECOMPUTE: ("recompute",),
    Capability.OFFLOAD: ("offload",),
}
SHARDS: Final = {
    "zero1": (Sharding.OPTIMIZER, Capability.ZERO1),
    "zero2": (Sharding.GRADIENTS, Capability.ZERO2),
    "fsdp2": (Sharding.PARAMETERS, Capability.FSDP2),
}
MOST_CHARACTERS: Final = 4_000
DEGREES: Final = ("tensor", "pipeline")
FLOWING: Final = ("micro_batches", "micro_batch")
LISTED: Final = ", ".join(f"{{{word}}}" for word in WORDS)


def _known(written: str) -> str:
    for found in IN_BRACES.finditer(written):
        word = found.group(2)
        if word is not None and word not in WORDS:
            raise wrong(
                f"{shown('{' + word + '}')} is no placeholder",
                hint=f"{_near(word)}write {{{{{word[:40]}}}}} where the braces are meant",
            )
    return written


def _near(word: str) -> str:
    near = get_close_matches(word[:40], WORDS, n=1)
    return f"did you mean {{{near[0]}}}? " if near else ""


Template = Annotated[
    str,
    Field(pattern=COMMAND_PATTERN, min_length=1, max_length=MOST_CHARACTERS),
    AfterValidator(_known),
]


def words_of(command: str) -> frozenset[str]:
    """The placeholders that it has."""
    return frozenset(filter(None, (one.group(2) for one in IN_BRACES.finditer(command))))


def filled(command: str, plan: ExecutionPlan, *, gpus: int, batch: int) -> str:
    """The command for this plan on so many GPUs."""
    values = degrees(plan, gpus=gpus, batch=batch)

    def put(found: re.Match[str]) -> str:
        doubled, word = found.groups()
        if doubled is not None:
            return f"{{{doubled}}}"
        return values[word] if word is not None else found.group(0)

    return IN_BRACES.sub(put, command)


def degrees(plan: ExecutionPlan, *, gpus: int, batch: int) -> dict[str, str]:
    """What each placeholder stands for."""
    data = plan.data or max(gpus // plan.gpus_per_replica, 1)
    sharded = plan.sharding is not Sharding.NONE
    passes = plan.accumulation_steps * plan.micro_batches
    return {
        "gpus": str(gpus),
        "data": str(data),
        "shard": str((plan.shard_degree or data) if sharded else 1),
        "tensor": str(plan.tensor),
        "pipeline": str(plan.pipeline),
        "micro_batches": str(plan.micro_batches),
        "accumulation": str(plan.accumulation_steps),
        "micro_batch": str(max(batch // (data * passes), 1)),
        "recompute": str(plan.recompute).lower(),
        "offload": str(plan.offload).lower(),
    }


def _family(plans: str, flags: str) -> str | None:
    found: str | None = told(
        None,
        f"The command for {plans}.",
        allowed=f"text of 1 to {MOST_CHARACTERS} characters; placeholders: {LISTED}",
        example=f"python train.py {flags}",
    )
    return found


class PlanCommands(Strict):
    """By which command the job is started as what; only for one that claims its model.

    The first that can be told a plan is the one that runs it.
    """

    data: Template | None = _family("replicas (DDP)", "--dp {data}")
    zero1: Template | None = _family(
        "replicas that share out the optimizer's state", "--dp {data} --zero 1"
    )
    zero2: Template | None = _family(
        "replicas that share out gradients as well", "--dp {data} --zero 2"
    )
    fsdp2: Template | None = _family(
        "replicas that share out everything (FSDP, ZeRO-3)", "--shards {shard} --tp {tensor}"
    )
    tensor: Template | None = _family("tensors in parts", "--dp {data} --tp {tensor}")
    pipeline: Template | None = _family(
        "a model in stages", "--dp {data} --pp {pipeline} --micro-batches {micro_batches}"
    )

    @property
    def families(self) -> tuple[PlanFamily, ...]:
        """What each command can be told, in their order."""
        return tuple(_offered_by(name, command) for name, command in self._given())

    def claim(self, model: ModelClaims) -> PlanClaim:
        """What follows for the choice of plans."""
        families = self.families
        offers = frozenset(one for family in families for one in family.offers)
        return PlanClaim(model.shape, model.batch, tuple(sorted(offers)), families=families)

    def run(self, plan: ExecutionPlan, *, gpus: int, batch: int) -> str | None:
        """The command that runs this plan; None where it is left to the job's own."""
        if plan == AS_WRITTEN:
            return None
        for name, command in self._given():
            if _offered_by(name, command).carries(plan, gpus):
                return filled(command, plan, gpus=gpus, batch=batch)
        return None

    def _given(self) -> list[tuple[str, str]]:
        given = ((name, getattr(self, name)) for name in type(self).model_fields)
        return [(name, command) for name, command in given if command is not None]

    @model_validator(mode="after")
    def _says_something(self) -> "PlanCommands":
        if not self._given():
            raise wrong(
                "no family of plans has a command",
                hint=f"give one of {', '.join(type(self).model_fields)}, or remove plans",
            )
        return self

    @model_validator(mode="after")
    def _can_be_told(self) -> "PlanCommands":
        """A command that is not told its degree would run another plan than was chosen."""
        for name, command in self._given():
            words = words_of(command)
            if name in DEGREES and name not in words:
                raise wrong(
                    f"the command of {name} is not told how many",
                    hint=f"put {{{name}}} where the degree goes",
                    field=name,
                )
            if "pipeline" in words and not words.intersection(FLOWING):
                raise wrong(
                    f"the command of {name} has stages and is not told the micro-batches",
                    hint="put {micro_batches}, or {micro_batch} for the samples of one",
                    field=name,
                )
        return self


def _offered_by(name: str, command: str) -> PlanFamily:
    sharding, own = SHARDS.get(name, (Sharding.NONE, Capability.DATA))
    told_too = {one for one, words in TOLD_BY.items() if words_of(command).intersection(words)}
    if sharding is not Sharding.PARAMETERS:
        told_too.discard(Capability.HYBRID)
    return PlanFamily(name, sharding, tuple(sorted({Capability.DATA, own, *told_too})))
