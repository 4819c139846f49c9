"""What the suites measured, kept in the repository: one JSON file for each suite.

A run names its command, day, commit and machine, so that a figure can be judged and made again.
`python -m benchmarks SUITE --record` writes one from a clean checkout, and
`python -m benchmarks.page` makes `docs/benchmarks.md` of all of them. Runs from before there were
records were carried over from the text that told them: their commit is the one that the figure came
with.
"""

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from benchmarks.row import Row

FOLDER = Path(__file__).with_name("records")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Figures that say more side by side."""

    header: list[str]
    lines: list[list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Figures as a picture: lines over `x`, both logarithmic, or a bar for each series."""

    file: str
    title: str
    kind: Literal["lines", "bars"]
    unit: str
    x_title: str
    x: list[float]
    series: dict[str, list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one command measured on one day.

    `remeasure` says why the figures have to be taken again: the commit that they name is not in the
    repository, or the checkout had changes that were not committed.
    """

    name: str
    command: str
    date: str
    commit: str | None
    machine: str
    rows: list[Row]
    notes: list[str]
    tables: list[Table]
    plots: list[Plot]
    remeasure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A suite's runs; `order` is its place on the page."""

    title: str
    order: int
    runs: list[Run]


def all_records(folder: Path = FOLDER) -> dict[str, Record]:
    """By suite, in the page's order."""
    found = {file.stem: _read(json.loads(file.read_text())) for file in folder.glob("*.json")}
    return dict(sorted(found.items(), key=lambda pair: pair[1].order))


def record(
    suite: str,
    name: str,
    command: str,
    rows: Sequence[Row],
    *,
    commit: str,
    folder: Path = FOLDER,
) -> Path:
    """Keep a run of that commit; one of the same name is replaced."""
    file = folder / f"{suite}.json"
    before = (
        _read(json.loads(file.read_text()))
        if file.exists()
        else Record(title=suite.capitalize(), order=99, runs=[])
    )
    run = Run(
        name=name,
        command=command,
        date=datetime.now(UTC).date().isoformat(),
        commit=commit,
        machine=f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        rows=list(rows),
        notes=[],
        tables=[],
        plots=[],
    )
    runs = [*(one for one in before.runs if one.name != name), run]
    kept = asdict(Record(title=before.title, order=before.order, runs=runs))
    file.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    return file


def figure(records: dict[str, Record], suite: str, name: str) -> Row:
    """The row of that name, which must be there."""
    rows = (row for run in records[suite].runs for row in run.rows if row.name == name)
    return next(rows)


def _read(told: dict[str, Any]) -> Record:
    return Record(title=told["title"], order=told["order"], runs=[*map(_run, told["runs"])])


def _run(told: dict[str, Any]) -> Run:
    return Run(
        **{
            **told,
            "rows": _each(Row, told["rows"]),
            "tables": _each(Table, told["tables"]),
            "plots": _each(Plot, told["plots"]),
        }
    )


def _each(kind: type[Any], told: Iterable[dict[str, Any]]) -> list[Any]:
    return [kind(**fields) for fields in told]


def measured_commit() -> str | None:
    """The commit of this checkout; None where tracked files differ from it."""
    if _git("status", "--porcelain", "--untracked-files=no"):
        return None
    return _git("rev-parse", "--short", "HEAD")


def _git(*words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=FOLDER.parent, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
