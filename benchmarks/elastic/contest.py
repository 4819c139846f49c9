"""The contest: Weft's own recipe against all the others, on everything, over five seeds.

Five recorded clusters on nodes of 8 GPUs (a seed deals the models and draws the costs), a generated
workload with Philly's mix at four loads, and five mixes of predictable and unpredictable jobs.
Changes cost what they were measured to cost on real nodes. Every recipe runs with its defaults.
Quotients are taken seed by seed and told with their 95 % interval; "no worse" is judged by that
interval, everything else by the mean.

`python -m benchmarks.elastic.contest` keeps outcomes in `contest.jsonl` beside this file as they
come, goes on where it was stopped, and prints the table in Markdown: the README's is that of the
file in the repository. Another FILE begins anew.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from math import exp, log
from pathlib import Path
from statistics import fmean

from benchmarks.elastic.mixes import WORKLOADS as MIXES
from benchmarks.elastic.trials import MEASURED, Outcome, Trial, Workload, compared, run_all
from benchmarks.elastic.workloads import VIRTUAL_CLUSTERS, generated, on_nodes
from benchmarks.row import Row, at_most, told
from weft.lab.interval import Interval, interval
from weft.policy.recipes import RECIPES

OWN, BASE = "weave", "afs-l"
REPLAY_RULES = "muri-"
SAME_AS_BASE = "afs"
KEPT = Path(__file__).with_suffix(".jsonl")
SEEDS = (0, 1, 2, 3, 4)
LOADS = (0.5, 0.7, 0.9, 1.1)
GENERATED_JOBS, GENERATED_GPUS = 600, 64

SHORT_SEEDS = (0, 1)
SHORT_RECIPES = ("srtf", "even", BASE, OWN)
SHORT_JOBS = 200

FASTER_BAR = 0.95
BEST_BAR = 1.03

Results = Mapping[tuple[str, str], Sequence[Outcome]]


def rows(traces: Path | None = None, *, short: bool = False) -> Iterator[Row]:
    """Every workload by itself, then all together."""
    outcomes = []
    for outcome in run_all(trials(traces, short=short)):
        outcomes.append(outcome)
        print(f"  {outcome.name} {outcome.recipe} {outcome.seed}", file=sys.stderr, flush=True)
    yield from judged(outcomes)


def trials(traces: Path | None, *, short: bool = False) -> list[Trial]:
    """Seeds within recipes within workloads."""
    return [
        Trial(name=name, workload=workload, recipe=recipe, seed=seed, costs=MEASURED)
        for name, workload in workloads(traces, short=short).items()
        for recipe in (SHORT_RECIPES if short else recipes())
        for seed in (SHORT_SEEDS if short else SEEDS)
    ]


def recipes() -> tuple[str, ...]:
    """All there are, but for another simulator's rules and for the base by another name."""
    return tuple(
        name for name in RECIPES if not name.startswith(REPLAY_RULES) and name != SAME_AS_BASE
    )


def workloads(traces: Path | None, *, short: bool = False) -> dict[str, Workload]:
    """By name; without traces there are no recorded clusters."""
    recorded: dict[str, Workload] = {}
    if traces is not None and not short:
        recorded = {
            f"Philly {cluster.tenant}": partial(on_nodes, traces=traces, cluster=cluster)
            for cluster in VIRTUAL_CLUSTERS
        }
    jobs = SHORT_JOBS if short else GENERATED_JOBS
    drawn = {
        f"generated {load:.0%}": partial(generated, load=load, jobs=jobs, gpus=GENERATED_GPUS)
        for load in LOADS
    }
    mixed = {f"mix {share:.0%}": workload for share, workload in MIXES.items()}
    return {**recorded, **drawn, **mixed}


def judged(outcomes: Iterable[Outcome]) -> Iterator[Row]:
    results = grouped(outcomes)
    names = _comparable(results)
    for name in names:
        yield from _judged_one(name, results)
    for field in ("mean_jct_seconds", "p99_jct_seconds"):
        quotients = [_ratio(results, name, OWN, field).mean for name in names]
        yield told(
            f"all workloads: {field}, {OWN} / {BASE}, geometric mean", _geometric(quotients), ""
        )


def grouped(outcomes: Iterable[Outcome]) -> dict[tuple[str, str], list[Outcome]]:
    results: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        results.setdefault((outcome.name, outcome.recipe), []).append(outcome)
    return results


def best_other(results: Results, name: str) -> str:
    """The recipe with the shortest average time, own one aside."""
    others = [recipe for workload, recipe in results if workload == name and recipe != OWN]
    return min(others, key=lambda recipe: _ratio(results, name, recipe, "mean_jct_seconds").mean)


def _judged_one(name: str, results: Results) -> Iterator[Row]:
    own, base, best = results[name, OWN], results[name, BASE], best_other(results, name)
    faster = _ratio(results, name, OWN, "mean_jct_seconds")
    yield _quotient(f"{name}: average JCT, {OWN} / {BASE}", faster, FASTER_BAR)
    yield at_most(
        f"{name}: resizes per job",
        _mean(own, "resizes"),
        "",
        _mean(base, "resizes"),
        peer=f"{BASE}",
        peer_value=_mean(base, "resizes"),
    )
    tail = _ratio(results, name, OWN, "p99_jct_seconds")
    yield _no_worse(f"{name}: p99 JCT, {OWN} / {BASE}", tail, sign=1)
    share = _ratio(results, name, OWN, "worst_share")
    yield _no_worse(f"{name}: worst tenant's share, {OWN} / {BASE}", share, sign=-1)
    versus = compared(own, results[name, best], "mean_jct_seconds")
    yield _quotient(f"{name}: average JCT, {OWN} / best other ({best})", versus, BEST_BAR)
    lost = sum(o.jobs - o.finished for key, many in results.items() if key[0] == name for o in many)
    yield at_most(f"{name}: jobs not finished under any recipe", lost, "", 0)


def _comparable(results: Results) -> list[str]:
    """Workloads on which both our own recipe and the one it is held against were run."""
    names = dict.fromkeys(name for name, _ in results)
    return [name for name in names if (name, OWN) in results and (name, BASE) in results]


def _ratio(results: Results, name: str, recipe: str, field: str) -> Interval:
    return compared(results[name, recipe], results[name, BASE], field)


def _quotient(name: str, found: Interval, bar: float) -> Row:
    return at_most(name, found.mean, "×", bar, peer="± 95 %", peer_value=found.half_width)


def _no_worse(name: str, found: Interval, *, sign: int) -> Row:
    """Not worse than equal, as far as the interval can tell."""
    half = found.half_width or 0.0
    return Row(
        name=name,
        value=found.mean,
        unit="×",
        bar="no worse" if sign > 0 else "no less",
        holds=sign * (found.mean - 1.0) <= half,
        peer="± 95 %",
        peer_value=found.half_width,
    )


def _mean(outcomes: Sequence[Outcome], field: str) -> float:
    return fmean(float(getattr(outcome, field)) for outcome in outcomes)


def _geometric(values: Sequence[float]) -> float:
    return exp(fmean(log(value) for value in values))


# --- the table ------------------------------------------------------------------------------------


def markdown(outcomes: Iterable[Outcome]) -> str:
    """Average times of all recipes relative to the base, and what the own one does beside it."""
    results = grouped(outcomes)
    names = _comparable(results)
    others = [r for r in dict.fromkeys(recipe for _, recipe in results) if r not in (OWN, BASE)]
    header = ["", f"`{BASE}`, h", f"`{OWN}`", *(f"`{recipe}`" for recipe in others)]
    lines = [header, ["---"] * len(header)]
    lines += [[name, *_times(results, name, others)] for name in names]
    beside = ["", "p99", "worst share", f"resizes, `{OWN}` / `{BASE}`", "best other"]
    more = [beside, ["---"] * len(beside)]
    more += [[name, *_beside(results, name)] for name in names]
    return "\n".join(_line(cells) for cells in lines) + "\n\n" + "\n".join(map(_line, more))


def _times(results: Results, name: str, others: Sequence[str]) -> Iterator[str]:
    hours = interval([o.mean_jct_seconds / 3600.0 for o in results[name, BASE]])
    yield _told(hours)
    yield f"**{_told(_ratio(results, name, OWN, 'mean_jct_seconds'))}**"
    for recipe in others:
        found = (name, recipe) in results
        yield f"{_ratio(results, name, recipe, 'mean_jct_seconds').mean:.2f}" if found else "–"


def _beside(results: Results, name: str) -> Iterator[str]:
    yield _told(_ratio(results, name, OWN, "p99_jct_seconds"))
    yield _told(_ratio(results, name, OWN, "worst_share"))
    own, base = (_mean(results[name, recipe], "resizes") for recipe in (OWN, BASE))
    yield f"{own:.2f} / {base:.2f}"
    best = best_other(results, name)
    yield f"`{best}` {_told(compared(results[name, OWN], results[name, best], 'mean_jct_seconds'))}"


def _told(found: Interval) -> str:
    if found.half_width is None:
        return f"{found.mean:.3g}"
    return f"{found.mean:.3g} ± {found.half_width:.2g}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Run what the file does not hold yet, then print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.elastic.contest")
    parser.add_argument("file", type=Path, nargs="?", default=KEPT)
    parser.add_argument("--recipes", help="only these, with commas between")
    parser.add_argument("--workloads", help="only those whose name holds one of these")
    parser.add_argument("--seeds", help="only these, with commas between")
    parser.add_argument("--table", action="store_true", help="run nothing")
    options = parser.parse_args()
    outcomes = kept(options.file)
    if not options.table:
        done = {(outcome.name, outcome.recipe, outcome.seed) for outcome in outcomes}
        traces = Path(os.environ["WEFT_TRACES"]) if "WEFT_TRACES" in os.environ else None
        left = [t for t in trials(traces) if (t.name, t.recipe, t.seed) not in done]
        with options.file.open("a") as file:
            for outcome in run_all([t for t in left if _wanted(t, options)]):
                outcomes.append(outcome)
                print(json.dumps(asdict(outcome)), file=file, flush=True)
    print(markdown(outcomes))


def kept(file: Path = KEPT) -> list[Outcome]:
    """What has been run so far."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [Outcome(**json.loads(line)) for line in lines]


def _wanted(trial: Trial, options: argparse.Namespace) -> bool:
    named = options.recipes is None or trial.recipe in options.recipes.split(",")
    drawn = options.seeds is None or str(trial.seed) in options.seeds.split(",")
    parts = (options.workloads or "").split(",")
    return named and drawn and any(part in trial.name for part in parts)


if __name__ == "__main__":
    main()
