"""Small files for readers: each test writes the few rows that it is about."""

from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[..., Path]


@pytest.fixture
def file(tmp_path: Path) -> Write:
    """`file("a,b", "1,2")` writes those lines and returns the path."""

    def write(*lines: str, name: str = "jobs.csv") -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    return write
