"""Staying with jobs that were just submitted: the log of one, the table of several."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from weft.api.backend import JobKey, Selection
from weft.api.errors import NoSuchJob
from weft.cli.exit_status import Exit, of_job
from weft.cli.jobs.job_words import several
from weft.cli.jobs.logs import Printer, followed
from weft.cli.jobs.sweep import Point
from weft.cli.terminal.age import lasting, now
from weft.cli.terminal.grid import Grid
from weft.cli.terminal.screen import harmless, print_json, say, stdout
from weft.cli.worlds.world import World
from weft.view.logs import Which

if TYPE_CHECKING:
    from weft.view.jobs import JobDetail, JobLine

SCHEMA = "weft-run/1"
AGAIN_SECONDS = 0.5
SHOWN_METRICS = 3
DELETED = "Deleted"


@dataclass(frozen=True, slots=True)
class Sent:
    """A job that was submitted, and the point of the sweep that it stands for."""

    point: Point
    made: "JobDetail"

    @property
    def name(self) -> str:
        return self.made.line.name

    @property
    def key(self) -> JobKey:
        return JobKey(self.made.line.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Row:
    """How a job stands; `line` is None once it is deleted."""

    sent: Sent
    line: "JobLine | None"
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def state(self) -> str:
        return DELETED if self.line is None else self.line.state or "New"

    @property
    def over(self) -> bool:
        return self.line is None or self.line.finished

    @property
    def status(self) -> Exit:
        return of_job(None if self.line is None else self.line.state)


async def follow_one(world: World, sent: Sent, output: str) -> Exit:
    """What the job prints, and beside it how it fares, until it has ended."""
    printer = Printer(with_rank=False, beside=output == "json")
    talking = asyncio.ensure_future(tell_states(world, sent.key))
    try:
        status = await followed(world, sent.key, Which(frozenset({0})), printer)
    finally:
        talking.cancel()
        await asyncio.gather(talking, return_exceptions=True)
    if output == "json":
        show_table([await _last(world, Row(sent, sent.made.line))], output)
    return status


async def follow_all(world: World, sent: Sequence[Sent], output: str) -> Exit:
    """Their table, drawn anew where somebody sees it, until all of them have ended."""
    rows = as_sent(sent)
    with _shown(rows, output) as show:
        async with aclosing(world.watch_jobs(Selection(world.namespace))) as pages:
            async for page in pages:
                lines = {line.uid: line for line in page.jobs}
                rows = [Row(each, lines.get(each.made.uid)) for each in sent]
                show(rows)
                if all(row.over for row in rows):
                    break
                await asyncio.sleep(AGAIN_SECONDS)
    rows = list(await asyncio.gather(*(_last(world, row) for row in rows)))
    show_table(rows, output)
    return _worst(row.status for row in rows)


def as_sent(sent: Sequence[Sent]) -> list[Row]:
    """As they stood when they were taken in."""
    return [Row(each, each.made.line) for each in sent]


def show_table(rows: Sequence[Row], output: str) -> None:
    """One line for each, with its point; or the same as JSON."""
    if output == "json":
        print_json({"schema": SCHEMA, "jobs": [as_dict(row) for row in rows]})
    elif rows == as_sent([row.sent for row in rows]) and not any(row.sent.point for row in rows):
        stdout().print("\n".join(str(row.sent.key) for row in rows), markup=False)
    else:
        grid_of(rows).print()


def as_dict(row: Row) -> dict[str, Any]:
    line = row.line
    return {
        "namespace": row.sent.key.owner,
        "name": row.sent.name,
        "uid": row.sent.made.uid,
        "point": dict(row.sent.point),
        "state": row.state,
        "gpus": line.gpus if line else 0,
        "progress": line.progress if line else None,
        "ran_seconds": line.ran_seconds(now()) if line else None,
        "message": line.message if line else None,
        "metrics": dict(row.metrics),
    }


def grid_of(rows: Sequence[Row]) -> Grid:
    """The values are columns of their own, so that a sweep can be read down one of them."""
    axes = list(rows[0].sent.point)
    metrics = list(dict.fromkeys(name for row in rows for name in row.metrics))[:SHOWN_METRICS]
    titles = [*axes, "job", "state", "GPUs", "progress", "ran", *metrics]
    grid = Grid(titles, frozenset({*axes, "GPUs", "progress", "ran", *metrics}))
    at = now()
    for row in rows:
        line = row.line
        held = (line.gpus or line.asked_gpus, line.progress) if line else (None, None)
        ran = lasting(line.ran_seconds(at)) if line else None
        reached = (f"{row.metrics[name]:.4g}" if name in row.metrics else None for name in metrics)
        grid.add(*row.sent.point.values(), row.sent.name, row.state, *held, ran, *reached)
    return grid


@contextmanager
def _shown(rows: Sequence[Row], output: str) -> Iterator[Callable[[Sequence[Row]], None]]:
    """A table that is drawn anew on a terminal; elsewhere a line for each change."""
    if output == "json" or not sys.stdout.isatty():
        yield Narrator(rows)
        return
    from rich.live import Live

    with Live(console=stdout(), auto_refresh=False, transient=True) as live:
        yield lambda rows: live.update(grid_of(rows).fitting(), refresh=True)


class Narrator:
    """Says what has become of whom."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._seen: dict[str, str] = {}
        say(f"{len(rows)} jobs: {rows[0].sent.name} … {rows[-1].sent.name}")

    def __call__(self, rows: Sequence[Row]) -> None:
        for row in rows:
            if self._seen.get(row.sent.name) != row.state:
                self._seen[row.sent.name] = row.state
                say(f"{row.sent.name} {row.state}")


async def tell_states(world: World, key: JobKey) -> None:
    """Each state that it comes to, with the reason of a wait; its end is told by others."""
    before = ""
    async with aclosing(world.changes(key)) as changes:
        async for detail in changes:
            if detail is None or detail.line.finished:
                return
            words = _standing(detail)
            if words != before:
                before = words
                say(f"{key.name} {words}")


def _standing(detail: "JobDetail") -> str:
    line = detail.line
    if line.waiting:
        why = f": {harmless(line.message)}" if line.message else ""
        return f"{line.state or 'New'}{why}"
    on = f" on {several(line.gpus, 'GPU')}" if line.gpus else ""
    return f"{line.state}{on}"


async def _last(world: World, row: Row) -> Row:
    """With what it reported in the end."""
    with suppress(NoSuchJob):
        detail = await world.detail(row.sent.key)
        if detail.uid == row.sent.made.uid:
            return Row(row.sent, detail.line, detail.metrics)
    return row


def _worst(statuses: Iterator[Exit]) -> Exit:
    found = set(statuses)
    return next((each for each in (Exit.FAILED, Exit.CANCELLED) if each in found), Exit.OK)
