"""The contest: Weft's own recipe against all others, in every configuration, seed by seed.

Fourteen workloads: five recorded clusters on nodes of 8 GPUs, a generated workload with Philly's
mix at four loads, and five mixes of predictable and unpredictable jobs. Three settings, from
everything told to nothing (`settings`); the last is scored, because it is the one that people have.
Changes cost what they were measured to cost on real nodes. Parameters are chosen on other workloads
(`split`), columns are in `columns`, bars in `verdict`.

`python -m benchmarks.elastic.contest` runs what the record does not hold yet for the present code
and prints the table; it may be stopped at any time and goes on where it was. All of it is thousands
of trials: `--near 1.1` leaves out further seeds of columns that were more than a tenth behind with
the seeds so far. `--development` runs the other workloads, into a file of their own.

As a part of the suite it runs nothing: it judges the record, and fails while trials are missing.
The short form runs two small development workloads in the scored setting.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.elastic import split
from benchmarks.elastic.columns import COLUMNS, OWN, PLAIN, Column
from benchmarks.elastic.contest_table import markdown, markdown_of_all
from benchmarks.elastic.record import code, keep, latest, of_present_code
from benchmarks.elastic.settings import SCORED, Setting
from benchmarks.elastic.trials import MEASURED, Outcome, Trial, as_they_end, run_all
from benchmarks.elastic.verdict import Contest, column_of, judged
from benchmarks.row import Row, at_most

KEPT = Path(__file__).with_suffix(".jsonl")
DEVELOPED = KEPT.with_name("development.jsonl")

SHORT_RIVALS = (Column("even", PLAIN), Column("afs-l", PLAIN), Column("afs-l", "packed"))
SHORT_BAR = 1.05

COLUMN_OF = {(column.recipe, column.parameters): column for column in COLUMNS}


def rows(traces: Path | None = None, *, short: bool = False) -> Iterator[Row]:
    """The verdict on what was run; short, the comparison on two small workloads, run now."""
    if short:
        outcomes = list(run_all(trials(split.short(), split.SHORT_SEEDS, (*SHORT_RIVALS, OWN))))
        yield from short_verdict(Contest.of(outcomes))
        return
    outcomes = of_present_code(KEPT)
    wanted = trials(split.scored(traces), split.SCORED_SEEDS)
    yield at_most(
        f"scored trials that were not run with code {code()}", missing(wanted, outcomes), "", 0
    )
    if outcomes:
        yield from judged(Contest.of(outcomes))


def short_verdict(contest: Contest) -> Iterator[Row]:
    """No more than a twentieth behind the best of a few."""
    for name in contest.workloads:
        best = contest.best_on(name)
        found = contest.quotient(name, best)
        yield at_most(f"{name}: mean JCT, {OWN.label} / {best.label}", found.mean, "×", SHORT_BAR)
    lost = sum(one.jobs - one.finished for many in contest.results.values() for one in many)
    yield at_most("jobs not finished, all columns", lost, "", 0)


def trials(
    workloads: split.Workloads,
    seeds: Sequence[int],
    columns: Sequence[Column] = COLUMNS,
    settings: Sequence[Setting] = (SCORED,),
) -> list[Trial]:
    """Columns within workloads within seeds within settings: a part of it compares all columns."""
    return [
        Trial(
            name=name,
            workload=workload,
            recipe=column.recipe,
            parameters=column.parameters,
            setting=setting,
            seed=seed,
            costs=MEASURED,
        )
        for setting in settings
        for seed in seeds
        for name, workload in workloads.items()
        for column in columns
    ]


def missing(wanted: Sequence[Trial], outcomes: Sequence[Outcome]) -> int:
    return len(_left(wanted, outcomes))


def worth_going_on(trial: Trial, contest: Contest, near: float) -> bool:
    """Whether its column may still be the best, on this workload or over all, by what is known."""
    column = COLUMN_OF[trial.recipe, trial.parameters]
    if (
        column == OWN
        or trial.name not in contest.workloads
        or column not in contest.rivals(trial.name)
    ):
        return True
    here = contest.quotient(trial.name, contest.best_on(trial.name)).mean
    if contest.quotient(trial.name, column).mean * near >= here:
        return True
    best = contest.best()
    if best is None or any(column not in contest.rivals(name) for name in contest.workloads):
        return True
    over_all = contest.over_workloads(best, "mean_jct_seconds").mean
    return contest.over_workloads(column, "mean_jct_seconds").mean * near >= over_all


def main() -> None:
    """Run what the record lacks, seed by seed, then print the table."""
    options = _parser().parse_args()
    file = options.file or (DEVELOPED if options.development else KEPT)
    if options.table:
        digest, outcomes = latest(file)
        print(f"code {digest}{'' if digest == code() else f', now {code()}'}")
    else:
        outcomes = of_present_code(file)
        for seed in _seeds(options):
            for outcome in _run(_chosen(options, seed), outcomes, file, options):
                outcomes.append(outcome)
    print(markdown_of_all(outcomes) if options.all else markdown(outcomes))


def _run(
    wanted: Sequence[Trial], outcomes: Sequence[Outcome], file: Path, options: argparse.Namespace
) -> Iterator[Outcome]:
    """The missing ones of one seed, told as they come."""
    left = _left(wanted, outcomes)
    if options.near:
        known = {setting: Contest.of(outcomes, setting) for setting in Setting}
        left = [
            trial for trial in left if worth_going_on(trial, known[trial.setting], options.near)
        ]
    for done, outcome in enumerate(keep(file, as_they_end(left, workers=options.workers)), start=1):
        what = f"{outcome.setting}, {outcome.name}, {column_of(outcome).label}"
        hours, spent = outcome.mean_jct_seconds / 3600.0, outcome.cpu_seconds
        line = (
            f"[{done}/{len(left)}] {what}, seed {outcome.seed}: {hours:.2f} h ({spent:.0f} s CPU)"
        )
        print(line, file=sys.stderr, flush=True)
        yield outcome


def _left(wanted: Sequence[Trial], outcomes: Sequence[Outcome]) -> list[Trial]:
    done = {(o.setting, o.name, o.recipe, o.parameters, o.seed) for o in outcomes}
    return [t for t in wanted if (t.setting, t.name, t.recipe, t.parameters, t.seed) not in done]


def _chosen(options: argparse.Namespace, seed: int) -> list[Trial]:
    traces = Path(os.environ["WEFT_TRACES"]) if "WEFT_TRACES" in os.environ else None
    workloads = split.development(traces) if options.development else split.scored(traces)
    parts = options.workloads.split(",")
    named = {name: one for name, one in workloads.items() if any(part in name for part in parts)}
    columns = [
        column
        for column in COLUMNS
        if not options.recipes or column.recipe in options.recipes.split(",")
        if not options.configurations or column.configuration in options.configurations.split(",")
    ]
    settings = [Setting[name] for name in options.settings.upper().split(",")]
    return trials(named, [seed], columns, settings)


def _seeds(options: argparse.Namespace) -> Sequence[int]:
    if options.seeds:
        return [int(seed) for seed in options.seeds.split(",")]
    return split.DEVELOPMENT_SEEDS if options.development else split.SCORED_SEEDS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.elastic.contest")
    parser.add_argument(
        "file", type=Path, nargs="?", help="the record; contest.jsonl beside the code"
    )
    parser.add_argument("--development", action="store_true", help="the workloads to choose on")
    parser.add_argument("--settings", default=SCORED.name, help="told,lengths_unknown,untold")
    parser.add_argument("--recipes", help="only these, with commas between")
    parser.add_argument("--configurations", help="only these: plain,packed,compact+restarts,…")
    parser.add_argument("--workloads", default="", help="only those whose name holds one of these")
    parser.add_argument("--seeds", help="only these, with commas between")
    parser.add_argument("--near", type=float, help="leave out columns further behind than this")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="run nothing")
    parser.add_argument("--all", action="store_true", help="a table of all columns")
    return parser


if __name__ == "__main__":
    main()
