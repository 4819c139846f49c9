"""Single fields of an API object, as it came over the wire: absent and null mean the same."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

Plain = Mapping[str, Any]


def part(thing: Plain, *names: str) -> Plain:
    """The inner object at that path; empty where there is none."""
    for name in names:
        thing = thing.get(name) or {}
    return thing


def moment(text: str | None) -> datetime | None:
    """A time as the API server writes it, with or without fractions."""
    if not text:
        return None
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def count(text: object) -> int:
    """A whole quantity such as `8` or `"8"`; what is no whole number counts as none."""
    try:
        return int(str(text))
    except ValueError:
        return 0


def condition(conditions: list[dict[str, Any]] | None, kind: str) -> dict[str, Any] | None:
    """The condition of that type."""
    return next((each for each in conditions or [] if each.get("type") == kind), None)
