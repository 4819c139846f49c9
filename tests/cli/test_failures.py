"""`weft failures` of a recorded run: causes by what they cost, and the failures themselves."""

import json
from pathlib import Path

import pytest

from tests.cli.called import call


def test_a_runs_failures_are_ranked_by_what_they_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "run")
    asked = ("simulate", "--jobs", "60", "--failures", "philly*3", "--out", folder)
    assert call(capsys, *asked).status == 0
    told = json.loads(call(capsys, "failures", "--run", folder, "-o", "json").out)
    assert told["schema"] == "weft-failures/1" and told["failures"]
    for table in ("cause", "class", "queue", "owner"):
        rows = told[table]
        assert sum(row["failures"] for row in rows) == len(told["failures"])
        hours = [row["lost_gpu_hours"] for row in rows]
        assert hours == sorted(hours, reverse=True)
        assert rows[-1]["so_far"] == pytest.approx(1.0)
    lost = sum(line["lost_gpu_seconds"] for line in told["failures"]) / 3600
    assert lost == pytest.approx(sum(row["lost_gpu_hours"] for row in told["cause"])) and lost > 0
    shown = call(capsys, "failures", "--run", folder).out
    assert told["cause"][0]["name"] in shown and "what happened" in shown
    assert "what happened" not in call(capsys, "failures", "--run", folder, "--by", "owner").out


def test_a_run_without_failures_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "run")
    assert call(capsys, "simulate", "--jobs", "5", "--out", folder).status == 0
    called = call(capsys, "failures", "--run", folder)
    assert called.out == "" and "no failures are known" in called.err
