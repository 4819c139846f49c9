"""What a job's file says of who is told: names of targets, never an address or a secret."""

from typing import Annotated, Final, Literal

from pydantic import Field

from weft.spec.strict import Strict, told

TARGET_PATTERN: Final = "^[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?$"
OCCASIONS: Final = ("started", "preempted", "failed", "ended")

OccasionName = Literal["started", "preempted", "failed", "ended"]
TargetName = Annotated[str, Field(pattern=TARGET_PATTERN, max_length=50)]


class Notify(Strict):
    """Who is told of the job, and when."""

    on: Annotated[list[OccasionName], Field(min_length=1, max_length=len(OCCASIONS))] = told(
        ["failed", "ended"],
        "The occasions.",
        allowed=f"a list of {', '.join(OCCASIONS)}",
        example=["failed", "ended"],
    )
    to: Annotated[list[TargetName], Field(min_length=1, max_length=10)] = told(
        ...,
        "Names of targets that whoever runs Weft has set up, with their addresses and secrets.",
        allowed="a list of names",
        example=["team"],
    )

    @property
    def by_occasion(self) -> dict[str, tuple[str, ...]]:
        return {occasion: tuple(self.to) for occasion in self.on}
