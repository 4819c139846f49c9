"""`weft ls`: jobs, those that matter now first."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from weft.api.backend import Selection
from weft.cli.completion.candidates import queues
from weft.cli.jobs.job_words import several
from weft.cli.options import output_option
from weft.cli.terminal.age import age, lasting, now, told_ago
from weft.cli.terminal.grid import Grid
from weft.cli.terminal.screen import harmless, print_json, say
from weft.cli.terminal.watching import detaching, staying
from weft.cli.worlds.place import ALL_NAMESPACES, WATCH, Place, place_options
from weft.cli.worlds.world import World

if TYPE_CHECKING:
    from weft.view.jobs import JobLine, JobPage

SCHEMA = "weft-jobs/1"
REFUSED = "Backoff.Refused"
NUMBERS = frozenset({"GPUs", "progress", "age", "priority", "waited", "ran"})
WAITING = ("", "Queued", "Admitted")
HOLDING = ("Starting", "Running", "Resizing", "Stopping")
ACTIVE = (*WAITING, *HOLDING)
FINISHED = ("Succeeded", "Failed", "Cancelled")
STATES = {
    "waiting": WAITING,
    "active": ACTIVE,
    "finished": FINISHED,
    **{name: (name,) for name in (*WAITING[1:], *HOLDING, *FINISHED)},
}


@click.command()
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    type=click.Choice(list(STATES), case_sensitive=False),
    help="Only jobs that are so: a state, or waiting, active or finished; may be repeated.",
)
@click.option("--queue", shell_complete=queues, help="Only jobs of this queue.")
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=0,
    help="Read no more than so many jobs from the server.  [default: all]",
)
@ALL_NAMESPACES
@WATCH
@place_options
@output_option("table", "wide", "json")
def ls(
    *,
    place: Place,
    states: tuple[str, ...],
    queue: str | None,
    limit: int,
    all_namespaces: bool,
    watch: bool,
    output: str,
) -> None:
    """List the jobs of a namespace or user: running ones first, then waiting, then finished."""
    chosen = frozenset(name for state in states for name in STATES[state])

    async def work(world: World) -> None:
        owner = None if all_namespaces else world.namespace
        wanted = Selection(owner, chosen, queue, limit or None)
        await (_watch(world, wanted, output) if watch else _once(world, wanted, output))

    with detaching("jobs go on; weft ls shows them again"):
        place.run(work)


def grid_of(page: "JobPage", at: datetime, *, whose: str = "", wide: bool = False) -> Grid:
    """`whose` is the title of a column that tells whose each job is; none without it."""
    titles = [whose] if whose else []
    titles += ["job", "state", "GPUs", "progress", "reason", "age"]
    titles += ["queue", "priority", "waited", "ran", "nodes", "message"] if wide else []
    grid = Grid(titles, NUMBERS)
    for line in in_order(page.jobs):
        cells = [line.namespace] if whose else []
        grid.add(*cells, *_cells(line, at), *(_wide_cells(line, at) if wide else ()))
    return grid


def in_order(lines: "Iterable[JobLine]") -> "list[JobLine]":
    """What runs, what waits, what is over; in each the newest first."""

    def rank(line: "JobLine") -> tuple[int, float, str, str]:
        group = 2 if line.finished else 1 if line.waiting else 0
        newest = -line.submitted_at.timestamp() if line.submitted_at else 0.0
        return group, newest, line.namespace, line.name

    return sorted(lines, key=rank)


def as_dict(page: "JobPage") -> dict[str, Any]:
    return {"schema": SCHEMA, "jobs": in_order(page.jobs), "left": page.left}


async def _once(world: World, wanted: Selection, output: str) -> None:
    page, at = await world.jobs(wanted), now()
    if output == "json":
        print_json(as_dict(page))
        return
    if page.jobs:
        whose = world.whose if wanted.owner is None else ""
        grid_of(page, at, whose=whose, wide=output == "wide").print()
    else:
        say(_nothing(world, wanted))
    for note in _refused(page):
        say(f"note: {note}")
    oldest = min((line.told_at for line in page.jobs if line.told_at), default=None)
    if told := told_ago(oldest, at):
        say(f"note: reasons {told}")
    if page.left:
        say(f"note: about {page.left:,} more jobs were not read; --limit 0 reads all")


def _refused(page: "JobPage") -> Iterator[str]:
    """Why a job cannot start at all: waiting does not help, so its code alone is not enough."""
    refused = [line for line in page.jobs if line.reason == REFUSED and line.message]
    if refused:
        more = f" ({several(len(refused) - 1, 'more job')} cannot start)" if refused[1:] else ""
        yield f"{refused[0].name}: {harmless(refused[0].message or '')}{more}"


async def _watch(world: World, wanted: Selection, output: str) -> None:
    whose, wide = world.whose if wanted.owner is None else "", output == "wide"

    def draw(page: "JobPage") -> Grid:
        return grid_of(page, now(), whose=whose, wide=wide)

    await staying(world.watch_jobs(wanted), as_dict, draw, output)


def _cells(line: "JobLine", at: datetime) -> tuple[object, ...]:
    ending = " (ending)" if line.ending and not line.finished else ""
    state = (line.state or "New") + ending
    return (line.name, state, _gpus(line), line.progress, line.reason, age(line.submitted_at, at))


def _wide_cells(line: "JobLine", at: datetime) -> tuple[object, ...]:
    waited, ran = lasting(line.waited_seconds(at)), lasting(line.ran_seconds(at))
    return (line.queue, line.priority, waited, ran, ", ".join(line.nodes), line.message)


def _gpus(line: "JobLine") -> str:
    """What it holds of what it asked for; while it holds nothing, what it asked for."""
    if not line.gpus or str(line.gpus) == line.asked_gpus:
        return line.asked_gpus
    return f"{line.gpus} of {line.asked_gpus}"


def _nothing(world: World, wanted: Selection) -> str:
    within = "of" if world.whose == "user" else "in"
    whose = f"{world.whose} '{wanted.owner}'" if wanted.owner else f"any {world.whose}"
    such = " such" if wanted.states or wanted.queue else ""
    return f"no{such} jobs {within} {whose}"
