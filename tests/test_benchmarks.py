"""What a benchmark's run says of itself: which rows fail, and what a short one leaves unjudged."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.__main__ import SUITES, main
from benchmarks.row import Row, at_most, clocked, exactly


def _rows(traces: Path | None, *, short: bool) -> Iterator[Row]:
    yield exactly("samples lost", 0, "", 0)
    yield clocked(at_most("stood still", 4.0, "s", 3.0), short=short)


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> str:
    module = ModuleType("benchmarks.slow")
    module.rows = _rows  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(SUITES, "cli", type(SUITES["cli"])(module.__name__, "slow", False))
    return "cli"


def test_a_full_run_judges_the_clock_and_names_what_fails_at_its_end(
    suite: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([suite]) == 1
    *_, named, count = capsys.readouterr().err.splitlines()
    assert "FAILS  stood still" in named
    assert count == "cli: 1 of 2 rows fail"


def test_a_short_run_tells_the_clock_and_judges_the_rest(
    suite: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([suite, "--short"]) == 0
    assert "missed  stood still" in capsys.readouterr().out
