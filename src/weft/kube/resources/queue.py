"""Queue: a share of the cluster, set by those who run it.

Queues form a tree by naming their parent. A recipe is set at a root, because one order rules all
that compete; it is one of the names that Weft brings, never a file: this object may be written by
people who may not run code in the operator.
"""

from typing import Annotated, Final

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from weft.kube.resources.status import Condition, Count, Status
from weft.spec.job_file import MAX_PRIORITY, QueueName
from weft.spec.strict import Strict, told

MAX_GPUS: Final = 10_000_000
RECIPE_PATTERN: Final = r"^[a-z][a-z0-9-]*(\([A-Za-z0-9_=., ()+-]*\))?$"

Gpus = Annotated[int, Field(ge=0, le=MAX_GPUS)]
Namespace = Annotated[str, Field(pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]


class QueueSpec(Strict):
    """What the queue is promised and what it may do."""

    parent: QueueName | None = told(
        None,
        "The queue above; without it, this one is a root.",
        allowed="the name of another queue",
        example="research",
    )
    guaranteed: Gpus | None = told(
        None,
        "GPUs that the queue gets back within one round, whoever borrowed them. Without it: what "
        "its children are promised.",
        allowed=f"a whole number 0 to {MAX_GPUS}",
        example=64,
    )
    limit: Gpus | None = told(
        None,
        "GPUs that it may never exceed; without it, no limit.",
        allowed=f"a whole number 0 to {MAX_GPUS}",
        example=128,
    )
    borrowing: bool = told(
        True,
        "Whether it may use what others leave idle.",
        allowed="true or false",
        example=False,
    )
    weight: Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)] = told(
        1.0,
        "Its part of what is idle, beside its siblings.",
        allowed="a number above 0, up to 1000000",
        example=2,
    )
    max_slowdown: Annotated[float, Field(ge=1, le=1000, allow_inf_nan=False)] | None = told(
        None,
        "How many times slower its jobs may become in company on the same GPUs; with 1 they have "
        "none. Without it: as in the queue above, and at the top as the recipe has it, which is 6.",
        allowed="a number 1 to 1000",
        example=3,
    )
    namespaces: Annotated[list[Namespace], Field(max_length=256)] = told(
        [],
        "Namespaces whose jobs may use the queue; empty means all.",
        allowed="up to 256 names of namespaces",
        example=["vision"],
    )
    max_priority: Annotated[int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY)] | None = told(
        None,
        "The highest priority that its jobs may have; without it, any. A job that asks for more "
        "waits, and is told.",
        allowed=f"a whole number -{MAX_PRIORITY} to {MAX_PRIORITY}",
        example=10,
    )
    recipe: Annotated[str, Field(pattern=RECIPE_PATTERN, max_length=200)] | None = told(
        None,
        "How its jobs are scheduled, as `weft recipes` lists it; for roots only.",
        allowed="the name of a recipe, with parameters in parentheses",
        example="las(hold=600)",
    )

    @model_validator(mode="after")
    def _in_order(self) -> "QueueSpec":
        if self.guaranteed is not None and self.limit is not None and self.guaranteed > self.limit:
            raise _wrong("guaranteed is above limit", hint="raise the limit", field="guaranteed")
        if self.recipe is not None and self.parent is not None:
            raise _wrong(
                "only a queue without a parent has a recipe",
                hint="set the recipe at the root",
                field="recipe",
            )
        return self


class QueueStatus(Status):
    """What the queue uses now; written by the operator alone."""

    observed_generation: Count | None = Field(
        None, description="Generation of the queue that this speaks of."
    )
    guaranteed: Count | None = Field(None, description="GPUs promised, children included.")
    limit: Count | None = Field(None, description="GPUs that it may never exceed.")
    used: Count | None = Field(None, description="GPUs that its jobs hold.")
    waiting: Count | None = Field(None, description="Jobs that wait.")
    running: Count | None = Field(None, description="Jobs that hold GPUs.")
    conditions: Annotated[list[Condition], Field(max_length=8)] = Field([], description="Ready.")


def _wrong(message: str, *, hint: str, field: str) -> PydanticCustomError:
    return PydanticCustomError("weft", "{text}", {"text": message, "hint": hint, "field": field})
