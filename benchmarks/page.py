"""`python -m benchmarks.page`: every figure that is told anywhere, written from the records.

Writes `docs/benchmarks.md`, its plots, and the few figures that README.md shows between two marks.
A test compares all of them with the records.
"""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.elastic.contest import KEPT
from benchmarks.elastic.contest_table import markdown
from benchmarks.elastic.record import latest
from benchmarks.plot import drawn
from benchmarks.records import FOLDER, Record, Run, Table, all_records, figure
from benchmarks.row import Figure, Row

ROOT = Path(__file__).parents[1]
PAGE, README, IMAGES = ROOT / "docs" / "benchmarks.md", ROOT / "README.md", ROOT / "docs" / "images"
BEGIN = "<!-- figures: begin, written by python -m benchmarks.page -->"
END = "<!-- figures: end -->"
HEADLINES = (
    (
        "A worker joins while the others train: they stand still for {} ms, {} % of what stopping "
        "and restarting the job takes.",
        (
            ("runtime", "a: training waits for a join"),
            ("runtime", "a: wait for a join / stop and restart, median"),
        ),
    ),
    (
        "`kill -9` of a worker: the next step of the others comes {} s later at worst; "
        "{} steps lost or applied twice in 13 losses.",
        (
            ("runtime", "d: kill -9 to the survivor's next step, worst"),
            ("runtime", "d: … steps left out or done twice in 13 losses"),
        ),
    ),
    (
        "Kueue's own baseline of 15,000 jobs: {} s, {} times Kueue's time "
        "(the bar was 0.4: missed).",
        (
            ("kube", "a: wall"),
            ("kube", "a: wall / Kueue at 300 calls/s, as installed"),
        ),
    ),
    (
        "Published results of Muri's and AFS's simulators come out again, AFS's 20 averages "
        "within {} %.",
        (
            (
                "elastic",
                "AFS's reference replay: largest difference of 20 averages to the recorded ones",
            ),
        ),
    ),
    (
        "`weave` against the best other recipe, lengths and curves unknown, five seeds: mean "
        "completion time {} times at 50 % load, {} times in the mix where it is worst.",
        (("contest", "generated, 50 % load"), ("contest", "mix, 25 % unpredictable")),
    ),
)
INTRODUCTION = FOLDER / "introduction.md"


def main() -> None:
    """Write the page, its plots and the README's figures."""
    records = all_records()
    PAGE.write_text(page(records))
    for name, picture in pictures(records).items():
        (IMAGES / name).write_text(picture)
    before, _, after = around(README.read_text())
    README.write_text(before + headlines(records) + after)


def page(records: dict[str, Record]) -> str:
    """The whole document."""
    parts = [INTRODUCTION.read_text(), *_misses(records)]
    for suite, record in records.items():
        parts.append(f"\n## {record.title}\n")
        if suite == "contest":
            parts.extend(_contest())
        for run in record.runs:
            parts.extend(_run(run))
    return "\n".join(parts)


def pictures(records: dict[str, Record]) -> dict[str, str]:
    """The plots by file name."""
    plots = (plot for record in records.values() for run in record.runs for plot in run.plots)
    return {plot.file: drawn(plot) for plot in plots}


def headlines(records: dict[str, Record]) -> str:
    """The list that README.md shows."""
    lines = [
        "- " + sentence.format(*(_short(figure(records, *name).value) for name in names))
        for sentence, names in HEADLINES
    ]
    return "\n".join(lines)


def around(text: str) -> tuple[str, str, str]:
    """What stands before the figures of README.md, the figures, and what stands behind them."""
    before, begin, rest = text.partition(BEGIN + "\n")
    figures, end, after = rest.partition("\n" + END)
    assert begin and end, "README.md has lost the marks of its figures"
    return before + begin, figures, end + after


def _misses(records: dict[str, Record]) -> Iterator[str]:
    """What does not hold, first."""
    yield "\n## What was missed\n"
    for record in records.values():
        for run in record.runs:
            for row in run.rows:
                if not row.holds:
                    kind = "aim" if row.aim else "bar"
                    what = f"{record.title}, {run.name}: {row.name}"
                    yield f"- {what}: {_value(row)} ({kind} {row.bar})"


def _contest() -> Iterator[str]:
    """The kept outcomes of the whole contest, where there are some."""
    digest, outcomes = latest(KEPT)
    if outcomes:
        yield f"Outcomes of the code {digest}:\n"
        yield markdown(outcomes)
        yield ""


def _run(run: Run) -> Iterator[str]:
    commit = f"commit {run.commit}" if run.commit else "commit not kept"
    yield f"### {run.name.capitalize() if run.name.islower() else run.name}\n"
    command = f"`{run.command}`" if not run.command.startswith("single") else run.command
    yield f"{command} · {run.date} · {commit} · {run.machine}\n"
    if run.remeasure:
        yield f"**To be measured again**: {run.remeasure}.\n"
    if run.rows:
        yield from _markdown(_of_rows(run.rows))
    for note in run.notes:
        yield f"{note}\n"
    for table in run.tables:
        yield from _markdown(table)
    for plot in run.plots:
        yield f"![{plot.title.replace('`', '')}](images/{plot.file})\n"


def _of_rows(rows: list[Row]) -> Table:
    beside = any(row.peer for row in rows)
    header = ["", "measured", "bar", *(["beside it"] if beside else [])]
    lines = [[row.name, _value(row), _bar(row), *([_peer(row)] if beside else [])] for row in rows]
    return Table(header=header, lines=lines)


def _markdown(table: Table) -> Iterator[str]:
    yield f"| {' | '.join(table.header)} |"
    yield "|---" * len(table.header) + "|"
    for line in table.lines:
        yield f"| {' | '.join(line)} |"
    yield ""


def _value(row: Row) -> str:
    return f"{_number(row.value)} {row.unit}".strip()


def _short(value: Figure) -> str:
    """In a sentence three digits are enough."""
    return _number(float(f"{value:.3g}") if isinstance(value, float) else value)


def _number(value: Figure) -> str:
    if isinstance(value, float):
        return f"{value:g}".replace("-", "−") if abs(value) >= 1e-3 else f"{value:.0e}"  # noqa: PLR2004
    return f"{value:,}" if isinstance(value, int) else value or ""


def _bar(row: Row) -> str:
    if row.bar is None:
        return ""
    kept = ("met" if row.aim else "holds") if row.holds else ("missed" if row.aim else "**fails**")
    return f"{'aim ' if row.aim else ''}{row.bar}: {kept}"


def _peer(row: Row) -> str:
    return f"{row.peer}: {_number(row.peer_value)}" if row.peer else ""


if __name__ == "__main__":
    main()
