"""Figures in the documents are those of the records, and pictures are drawn from what was kept."""

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import SUITES, main
from benchmarks.page import IMAGES, PAGE, README, around, headlines, page, pictures
from benchmarks.records import FOLDER, all_records, record
from benchmarks.row import at_most, told
from tools.live_resize import RECORD
from tools.live_resize_picture import drawn, held

MOST_WORDS = 1200
REMEDY = "python -m benchmarks.page"


def test_the_page_tells_what_is_recorded() -> None:
    assert PAGE.read_text() == page(all_records()), REMEDY


def test_the_readme_tells_what_is_recorded() -> None:
    _, figures, _ = around(README.read_text())
    assert figures == headlines(all_records()), REMEDY


def test_plots_are_drawn_from_what_is_recorded() -> None:
    for name, picture in pictures(all_records()).items():
        assert (IMAGES / name).read_text() == picture, REMEDY


def test_the_readme_is_two_screens() -> None:
    assert len(README.read_text().split()) <= MOST_WORDS


def test_every_run_can_be_judged() -> None:
    """Day, machine and command are known of each; a missed bar is not told as held."""
    for suite, kept in all_records().items():
        names = [run.name for run in kept.runs]
        assert len(names) == len(set(names)), suite
        for run in kept.runs:
            assert run.date and run.machine and run.command, (suite, run.name)
            assert run.rows or run.tables, (suite, run.name)


def test_a_run_is_kept_in_place_of_the_one_before(tmp_path: Path) -> None:
    for name, row in (
        ("all", told("a", 1, "s")),
        ("part", told("b", 1, "s")),
        ("all", at_most("a", 3, "s", 2)),
    ):
        record("some", name, "python -m benchmarks", [row], commit="0123abc", folder=tmp_path)
    runs = {run.name: run for run in all_records(tmp_path)["some"].runs}
    assert list(runs) == ["part", "all"]
    assert (runs["all"].rows[0].value, runs["all"].rows[0].holds) == (3, False)
    assert "a: 3 s (bar <= 2)" in page(all_records(tmp_path))


def test_a_short_run_is_not_kept(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["cli", "--short", "--record"])
    assert "leave out --record" in capsys.readouterr().err


def test_a_run_of_changes_that_are_not_committed_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.__main__.measured_commit", lambda: None)
    with pytest.raises(SystemExit):
        main(["cli", "--record"])
    assert "commit your changes first" in capsys.readouterr().err


def test_runs_of_unknown_code_are_marked_to_be_measured_again() -> None:
    unknown = [
        (suite, run.name)
        for suite, kept in all_records().items()
        for run in kept.runs
        if (run.commit is None or run.commit.endswith("-dirty")) and not run.remeasure
    ]
    assert unknown == []


def test_records_are_of_suites_or_of_tests() -> None:
    for file in FOLDER.glob("*.json"):
        commands = [run["command"] for run in json.loads(file.read_text())["runs"]]
        assert file.stem in SUITES or all(
            "benchmarks" in one or "pytest" in one for one in commands
        )


def test_the_moving_picture_shows_a_run_that_was() -> None:
    kept = json.loads(RECORD.read_text())
    assert RECORD.with_suffix(".svg").read_text() == drawn(kept), "python -m tools.live_resize draw"
    widths = [len(slots) for *_, slots in held(kept["events"]["lm"])]
    assert max(widths) == kept["slots"] > min(widths) > 0
