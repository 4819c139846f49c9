"""What a command left, and how it is held against what it left before."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from weft.cli.main import main

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


def call(captured: pytest.CaptureFixture[str], *words: str | Path) -> Called:
    """The command line, called in this process."""
    status = 0
    try:
        main([str(word) for word in words])
    except SystemExit as left:
        status = int(left.code or 0)
    text = captured.readouterr()
    return Called(status, text.out, text.err)


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


def expect_json_shape(name: str, value: object) -> None:
    """The JSON has the fields and the types that it had."""
    text = orjson.dumps(shape(value), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
    expect_snapshot(name, text.decode() + "\n")


def trimmed(text: str) -> str:
    """A table without the blanks that fill its last column."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())
