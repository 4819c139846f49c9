"""What every status shares: camelCase keys as Kubernetes has them, moments, conditions.

A status is read leniently. A newer operator may write what this version does not know, and that
is no reason to refuse the rest.
"""

from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Status(BaseModel):
    """A part of a status."""

    model_config = ConfigDict(
        extra="ignore", frozen=True, alias_generator=to_camel, populate_by_name=True
    )


Moment = AwareDatetime
Text = Annotated[str, Field(max_length=4096)]
Word = Annotated[str, Field(max_length=316)]
Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0)]


class Condition(Status):
    """One observed condition, as Kubernetes defines them."""

    type: Word = Field(description="What the condition is about.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    reason: Word = Field(description="Why, in one word.")
    message: Text = Field("", description="Why, in a sentence.")
    last_transition_time: Moment = Field(description="When its status last changed.")
    observed_generation: Count | None = Field(
        None, description="Generation of the object that this speaks of."
    )
