"""What all parts of a job file share: strictness, and fields that explain themselves."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError


class Strict(BaseModel):
    """A part of the file: unknown fields are refused, and no value is bent into another kind."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def told(default: object, description: str, *, allowed: str, example: object, **more: Any) -> Any:  # noqa: ANN401
    """A field with everything that help pages and errors say about it."""
    return Field(
        default,
        description=description,
        examples=[example],
        json_schema_extra={"allowed": allowed},
        **more,
    )


def wrong(message: str, *, hint: str, field: str = "") -> PydanticCustomError:
    # The text goes in as a value, because a template would read braces in what was written.
    return PydanticCustomError("weft", "{text}", {"text": message, "hint": hint, "field": field})
