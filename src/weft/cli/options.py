"""Options that several commands share, with one name and one meaning each.

A bundle of options reaches its command as one value: `source` for what is run, `world` for where,
`folder` for what is left behind.
"""

import inspect
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft.cli.numbers import Finite
from weft.model.errors import SpecError

if TYPE_CHECKING:
    from weft.lab.experiment import Experiment
    from weft.lab.workloads.source import Source

Command = Callable[..., int | None]  # its exit status, if it chooses one
Decorator = Callable[[Command], Command]

GENERATED_JOBS = 1000
MOST_GENERATED_JOBS = 1_000_000
GENERATED_LOAD = 0.9

FORMAT = click.option("--format", help="Format of WORKLOAD.  [default: recognised]")
ON_FAULT = click.option(
    "--on-fault",
    type=click.Choice(["raise", "skip"]),
    default="raise",
    show_default=True,
    help="Refuse a WORKLOAD with unusable rows, or leave them out.",
)
COLUMN = click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="OURS=THEIRS",
    help="Read our column OURS from theirs, OURS:min from minutes; may be repeated.",
)
DURATION = click.option(
    "--duration",
    "durations",
    multiple=True,
    metavar="MODEL=SECONDS",
    help="How long a job of MODEL takes, for lists without durations; may be repeated.",
)
JOBS = click.option(
    "--jobs",
    type=click.IntRange(1, MOST_GENERATED_JOBS),
    help=f"Jobs to generate without WORKLOAD.  [default: {GENERATED_JOBS}]",
)
LOAD = click.option(
    "--load",
    type=Finite(0.0001, 10_000),
    help=f"Their work over the cluster's capacity.  [default: {GENERATED_LOAD}]",
)
DAYS = click.option(
    "--days",
    type=Finite(0, 100_000, min_open=True),
    help="Spread them over so many days instead.",
)
CLUSTER = click.option(
    "--cluster",
    default="8x8",
    show_default=True,
    help="Nodes x GPUs, or a .yaml spec or .csv node list.",
)
COSTS = click.option(
    "--costs",
    default="tacc",
    show_default=True,
    help="What starts and stops cost: tacc (measured) or free.",
)
COST_SCALE = click.option(
    "--cost-scale",
    type=Finite(0, 10_000),
    default=1.0,
    show_default=True,
    help="Stretch the costs by this factor.",
)
FAILURES = click.option(
    "--failures",
    default="",
    metavar="NAME",
    help="What goes wrong: philly, or philly*2 for twice as much.  [default: nothing]",
)
OUT = click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Leave tables, numbers and report.html in this folder.",
)
FORCE = click.option("--force", is_flag=True, help="Write into a folder that is not empty.")
SEED = click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of all chance."
)


def output_option(*choices: str) -> Decorator:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(choices or ("table", "json")),
        default="table",
        show_default=True,
        help="What to print on standard output.",
    )


@dataclass(frozen=True, slots=True)
class World:
    """The cluster and what changes cost on it."""

    cluster: str
    costs: str
    cost_scale: float
    failures: str = ""

    def experiment(self, source: "Source", *, recipe: str = "", seed: int = 0) -> "Experiment":
        from weft.lab.experiment import Experiment

        return Experiment(
            source=source,
            cluster=self.cluster,
            costs=self.costs,
            cost_scale=self.cost_scale,
            failures=self.failures,
            recipe=recipe,
            seed=seed,
        )


@dataclass(frozen=True, slots=True)
class Naming:
    """Pairs of our column and the file's, and of a model and the seconds that it takes."""

    columns: tuple[tuple[str, str], ...] = ()
    durations: tuple[tuple[str, float], ...] = ()

    @property
    def words(self) -> dict[str, Any]:
        """As a reader takes them."""
        return {"columns": dict(self.columns) or None, "durations": dict(self.durations) or None}


NOTHING_NAMED = Naming()


def make_naming(*, columns: tuple[str, ...] = (), durations: tuple[str, ...] = ()) -> Naming:
    """`NAME=VALUE`, as often as it is given."""
    from weft.trace.times import read_span

    try:
        lengths = [(model, read_span(span)) for model, span in _pairs(durations, "--duration")]
    except ValueError as error:
        raise click.BadParameter(f"a length {error}", param_hint="--duration") from None
    return Naming(tuple(_pairs(columns, "--column")), tuple(lengths))


def _pairs(given: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    for pair in given:
        if "=" not in pair:
            raise click.BadParameter(f"'{pair}' is not of the form NAME=VALUE", param_hint=option)
    pairs = [(name, value) for name, _, value in (pair.partition("=") for pair in given)]
    twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    if twice:
        raise click.BadParameter(f"'{twice[0]}' is given twice; give it once", param_hint=option)
    return pairs


def make_source(
    *,
    workload: str | None = None,
    format: str | None = None,
    on_fault: str = "raise",
    naming: Naming = NOTHING_NAMED,
    jobs: int | None = None,
    load: float | None = None,
    days: float | None = None,
) -> "Source":
    """The workload that these options speak of."""
    from weft.lab.workloads.source import FromFile, Generated

    if workload is not None:
        if (jobs, load, days) != (None, None, None):
            raise SpecError(
                "--jobs, --load and --days are for a generated workload",
                hint=f"leave them out, or leave '{workload}' out",
            )
        return FromFile(
            path=workload,
            format=format,
            on_fault="skip" if on_fault == "skip" else "raise",
            columns=naming.columns,
            durations=naming.durations,
        )
    if format or naming != NOTHING_NAMED:
        raise SpecError(
            "--column, --duration and --format are for a WORKLOAD", hint="name its file"
        )
    if load is not None and days is not None:
        raise SpecError("--load and --days say two things about one rate", hint="give one of them")
    return Generated(jobs=jobs or GENERATED_JOBS, load_factor=load or GENERATED_LOAD, days=days)


def make_folder(*, out: Path | None, force: bool) -> Path | None:
    """The folder to leave everything in, ready; None where nobody wants one."""
    from weft.lab.run_dir import prepared

    return None if out is None else prepared(out, force=force)


def bundled(name: str, make: Callable[..., Any], *options: Callable[[Any], Any]) -> Decorator:
    """Options whose values reach the command as the one argument `name`."""
    own = list(inspect.signature(make).parameters)

    def decorate(command: Command) -> Command:
        @wraps(command)
        def call(**given: Any) -> int | None:
            value = make(**{key: given.pop(key) for key in own})
            return command(**{name: value}, **given)

        decorated: Command = call
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


WORKLOAD = click.argument("workload", required=False)
naming_options = bundled("naming", make_naming, COLUMN, DURATION)
_source_options = bundled("source", make_source, WORKLOAD, FORMAT, ON_FAULT, JOBS, LOAD, DAYS)


def source_options(command: Command) -> Command:
    """Those of the workload, with those that say how its file is to be read."""
    return naming_options(_source_options(command))


world_options = bundled("world", World, CLUSTER, COSTS, COST_SCALE, FAILURES)
folder_options = bundled("folder", make_folder, OUT, FORCE)
