"""`weft failures`: what jobs fail of, and what that costs."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from weft.cli.numbers import Finite
from weft.cli.options import output_option
from weft.cli.terminal.grid import Grid
from weft.cli.terminal.screen import print_json, say
from weft.cli.worlds.place import Place, place_options
from weft.cli.worlds.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.view.failures import Cause, FailureLine, FailurePage

SCHEMA: Final = "weft-failures/1"
TITLES: Final = ("failures", "jobs", "owners", "GPU hours", "share", "so far")
MOST_DAYS: Final = 3_650  # as the API has it
HEADINGS: Final = {"cause": "cause", "class": "class", "queue": "queue", "owner": "owner"}


@click.command()
@click.option(
    "--by",
    type=click.Choice(list(HEADINGS)),
    default="cause",
    show_default=True,
    help="What is counted together.",
)
@click.option(
    "--days",
    type=Finite(0, MOST_DAYS, min_open=True),
    default=30.0,
    show_default=True,
    help="How far to look back.",
)
@click.option("--everyone", is_flag=True, help="Of everybody, as far as you may see them.")
@click.option(
    "--run",
    "folder",
    type=click.Path(path_type=Path),
    help="Ask a recorded run instead: its folder, as simulate --out leaves it.",
)
@place_options
@output_option()
def failures(
    *, by: str, days: float, everyone: bool, folder: Path | None, place: Place, output: str
) -> None:
    """Show what jobs fail of: the causes that cost the most GPU time first.

    GPU time counts as lost where nobody can go on from what was computed.
    """
    page = _in_run(folder) if folder is not None else place.run(_asking(days, everyone=everyone))
    if output == "json":
        print_json(as_dict(page))
    elif page.failures:
        grid_of(_ranked(page.failures, by), HEADINGS[by]).print()
    if not page.failures:
        say("no failures are known")
    if page.left:
        say(f"note: {page.left:,} earlier ones are left out")


def grid_of(causes: "Sequence[Cause]", heading: str) -> Grid:
    """One row for each, the dearest first; `so far` is its share with all that stand above it."""
    told = ["what happened"] if heading == HEADINGS["cause"] else []
    grid = Grid([heading, *TITLES, *told], frozenset(TITLES))
    for cause in causes:
        counts = (cause.failures, cause.jobs, cause.owners, f"{cause.lost_gpu_hours:,.2f}")
        shares = (f"{cause.share:.0%}", f"{cause.so_far:.0%}")
        grid.add(cause.name, *counts, *shares, *([cause.says] if told else []))
    return grid


def as_dict(page: "FailurePage") -> dict[str, Any]:
    """All tables, and the failures that they are made of."""
    tables = {name: [asdict(one) for one in _ranked(page.failures, name)] for name in HEADINGS}
    lines = [asdict(line) for line in page.failures]
    return {"schema": SCHEMA, **tables, "failures": lines, "left": page.left}


def _ranked(lines: "Sequence[FailureLine]", by: str) -> "tuple[Cause, ...]":
    from weft.view.failures import by_kind, by_owner, by_queue, by_rule, pareto

    keys = {"cause": by_rule, "class": by_kind, "queue": by_queue, "owner": by_owner}
    return pareto(lines, keys[by])


def _asking(days: float, *, everyone: bool) -> Any:  # noqa: ANN401 - a question to a world
    async def ask(world: World) -> "FailurePage":
        return await world.failures(None if everyone else world.namespace, days)

    return ask


def _in_run(folder: Path) -> "FailurePage":
    from weft.lab.journals.failures import failures_in
    from weft.lab.run_dir import journal_in
    from weft.view.failures import FailurePage

    return FailurePage(failures_in(journal_in(folder)))
