"""What a command left, and how it is held against what it left before."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

SNAPSHOTS = Path(__file__).parent / "snapshots"


@dataclass(frozen=True)
class Called:
    """What a command left."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = orjson.loads(self.out)
        return found


Weft = Callable[..., Called]


def expect_snapshot(name: str, text: str) -> None:
    """The text is what it was; WEFT_UPDATE_SNAPSHOTS=1 says that it was meant to change."""
    path = SNAPSHOTS / name
    if os.environ.get("WEFT_UPDATE_SNAPSHOTS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


def shape(value: object) -> object:
    """A JSON value with its types in place of its values; a list by its first member."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__
