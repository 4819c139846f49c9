"""`python -m benchmarks SUITE [-o json] [--short] [--only PARTS] [--record]`: measure, show, judge.

A suite is a module with `rows(traces, *, short)`, loaded when asked for; one with parts takes
`only` as well. Exit status: 0 if every bar holds, 1 if one does not, 2 if the suite cannot run.
Suites that replay recorded traces find them through WEFT_TRACES; without it they cannot run, or
say so in a row under `--short`.
"""

import argparse
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.records import measured_commit, record
from benchmarks.row import Row, told
from benchmarks.table import plain, show

Rows = Callable[..., Iterable[Row]]


@dataclass(frozen=True, slots=True)
class Suite:
    """Where a suite lives and what it is about."""

    module: str
    about: str
    needs_traces: bool
    parts: tuple[str, ...] = ()


ELASTIC = (
    *("conformance", "decision", "lengths", "churn", "packing", "mixes"),
    *("curves", "synergy", "waits", "contest", "replay", "real"),
)

SUITES = {
    "cli": Suite("benchmarks.cli", "how long commands take to begin", False),
    "conformance": Suite("benchmarks.conformance", "published results, reproduced", True),
    "elastic": Suite("benchmarks.elastic", "widths that follow the work", False, ELASTIC),
    "failures": Suite(
        "benchmarks.failures",
        "whose fault, and what next",
        True,
        (
            *("classifier", "retry", "breaker", "nodes", "value", "trials", "preemption"),
            *("defragmentation", "storm", "isolation", "checks", "starvation"),
        ),
    ),
    "forecast": Suite("benchmarks.forecast", "a world that begins in the middle", False),
    "interleaving": Suite(
        "benchmarks.interleaving",
        "jobs in company",
        True,
        (
            *("decision", "quality", "replay", "slices", "ordinary", "long", "noise"),
            *("colocation", "real"),
        ),
    ),
    "kube": Suite(
        "benchmarks.kube", "on a real control plane, beside Kueue", False, tuple("abcde")
    ),
    "local": Suite("benchmarks.local", "ten jobs on this machine, and foretold", False),
    "plans": Suite(
        "benchmarks.plans",
        "how a model is split, foretold, chosen and changed",
        True,
        ("time", "memory", "cliffs", "base", "decision", "switch"),
    ),
    "replay": Suite(
        "benchmarks.replay", "the Philly list on two clusters", True, ("clusters", "speed")
    ),
    "round": Suite("benchmarks.round", "what one round costs, and how that grows", False),
    "runtime": Suite("benchmarks.runtime", "training that is resized", False, tuple("abcdefg")),
}


def main(arguments: list[str] | None = None) -> int:
    """Run one suite; the process's exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.record and options.short:
        parser.error("--short measures too little to be kept: leave out --record")
    commit = measured_commit() if options.record else None
    if options.record and commit is None:
        parser.error("--record names the commit that was measured: commit your changes first")
    suite = SUITES[options.suite]
    only = tuple(options.only.split(",")) if options.only else ()
    if strangers := set(only) - set(suite.parts):
        print(f"{options.suite} has no part {', '.join(sorted(strangers))}", file=sys.stderr)
        return 2
    traces = _traces()
    if suite.needs_traces and traces is None:
        if not options.short:
            print(f"{options.suite}: set WEFT_TRACES to the folder of traces", file=sys.stderr)
            return 2
        rows = [told(f"skipped: {options.suite} needs WEFT_TRACES", None, "")]
    else:
        rows = _measured(suite, traces, short=options.short, only=only)
    if options.output == "json":
        print(json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False))
    else:
        show(rows)
    if commit is not None:
        _keep(options.suite, options.only, rows, commit)
    failed = [row for row in rows if row.fails]
    if failed:
        print(plain(failed), file=sys.stderr)
        print(f"{options.suite}: {len(failed)} of {len(rows)} rows fail", file=sys.stderr)
    return 1 if failed else 0


def _keep(suite: str, only: str | None, rows: list[Row], commit: str) -> None:
    command = f"python -m benchmarks {suite}" + (f" --only {only}" if only else "")
    file = record(suite, only or "all", command, rows, commit=commit)
    print(f"kept in {file}; python -m benchmarks.page writes the page anew", file=sys.stderr)


def _measured(
    suite: Suite, traces: Path | None, *, short: bool, only: tuple[str, ...]
) -> list[Row]:
    """All rows; on a terminal each is named as it comes, because a full suite takes minutes."""
    measure: Rows = importlib.import_module(suite.module).rows
    rows = []
    chosen = {"only": only} if only else {}
    for row in measure(traces, short=short, **chosen):
        rows.append(row)
        if sys.stderr.isatty():
            print(f"  {row.name}", file=sys.stderr, flush=True)
    return rows


def _traces() -> Path | None:
    folder = Path(os.environ.get("WEFT_TRACES") or "nowhere")
    return folder if folder.is_dir() else None


def _parser() -> argparse.ArgumentParser:
    about = "\n".join(f"  {name:<12} {suite.about}" for name, suite in SUITES.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=f"Measure Weft against its bars.\n\nsuites:\n{about}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("suite", choices=SUITES, metavar="SUITE")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--short", action="store_true", help="a minute instead of many")
    parser.add_argument("--record", action="store_true", help="keep it in benchmarks/records")
    parser.add_argument("--only", metavar="PARTS", help="of a suite with parts: a,b,c")
    return parser


if __name__ == "__main__":
    sys.exit(main())
