"""`weft show`: one job in full."""

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from weft.cli.completion.candidates import jobs_in
from weft.cli.jobs.job_words import facts, several
from weft.cli.jobs.plan_words import plan_lines
from weft.cli.options import output_option
from weft.cli.terminal.age import age, lasting, now, told_ago
from weft.cli.terminal.screen import cell, coloured, fact_table, new_table, print_json, stdout
from weft.cli.worlds.place import Place, place_options
from weft.cli.worlds.world import World, located
from weft.lab.time_words import number
from weft.view.company import company_line, no_company_line

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from weft.view.failures import FailureLine
    from weft.view.jobs import JobDetail, JobPicture
    from weft.view.workers import EventLine, WorkerLine

SCHEMA = "weft-job/1"
SHOWN_WORKERS = 32
SHOWN_EVENTS = 10
EARLIEST = datetime.min.replace(tzinfo=UTC)


@click.command()
@click.argument("job", shell_complete=jobs_in())
@place_options
@output_option()
def show(*, job: str, place: Place, output: str) -> None:
    """Show JOB: what it asks for, what it holds and where, its workers, and its latest events."""

    async def work(world: World) -> "tuple[JobPicture, bool]":
        return await world.job(located(job, world)), world.whose == "user"

    picture, is_local = place.run(work)
    if output == "json":
        print_json(as_dict(picture))
    else:
        stdout().print(drawn(picture, now(), pods=not is_local))


def as_dict(picture: "JobPicture") -> dict[str, Any]:
    detail = asdict(picture.detail)
    return {
        "schema": SCHEMA,
        **detail.pop("line"),
        **detail,
        "workers": picture.workers,
        "events": picture.events,
    }


def drawn(picture: "JobPicture", at: datetime, *, pods: bool = True) -> "Group":
    """What it is, why it waits, who works for it, what happened; workers may be no pods."""
    from rich.console import Group

    detail = picture.detail
    parts: list[Any] = [_headline(detail), fact_table(_facts(detail, at))]
    if detail.reasons:
        told = told_ago(detail.line.told_at, at)
        ago = f" [dim]({told})[/dim]" if told else ""
        parts += ["", f"[bold]Why it waits[/bold]{ago}", *reason_lines(detail)]
    if detail.plan is not None:
        parts += ["", "[bold]How it computes[/bold]", *map(cell, plan_lines(detail.plan))]
    if detail.failure is not None:
        parts += ["", "[bold]Why it failed[/bold]", *failure_lines(detail.failure)]
    if picture.workers:
        parts += ["", _workers(picture.workers, at, pods)]
    if picture.events:
        parts += ["", _events(latest(picture.events), at)]
    return Group(*parts)


def latest(events: "Iterable[EventLine]") -> "list[EventLine]":
    """The last ones in their order, whichever way a world lists them."""
    return sorted(events, key=lambda event: event.at or EARLIEST)[-SHOWN_EVENTS:]


def reason_lines(detail: "JobDetail") -> list[str]:
    """Each reason with its code, and its remedy below."""
    lines = []
    for place, reason in enumerate(detail.reasons, start=1):
        lines.append(f"{place} {cell(reason.text)}  \\[{cell(reason.code)}]")
        if reason.remedy:
            lines.append(f"  remedy: {cell(reason.remedy)}")
    return lines


def failure_lines(failure: "FailureLine") -> list[str]:
    """What was found, the line that shows it, what was done, what to do, and where to look."""
    where = [] if failure.rank is None else [f"rank {failure.rank}"]
    where += [f"on {failure.node}"] if failure.node else []
    place = f"  [dim]({cell(', '.join(where))})[/dim]" if where else ""
    lines = [f"{cell(failure.says)}  \\[{cell(failure.kind)}: {cell(failure.rule)}]"]
    if failure.line:
        lines.append(f"  evidence: {cell(failure.line)}{place}")
    lines += [f"  done: {cell(failure.did)}", f"  to do: {cell(failure.advice)}"]
    return [*lines, f"  log: {cell(failure.log)}"]


def _headline(detail: "JobDetail") -> str:
    line = detail.line
    parts = [coloured(line.state) if line.state else "New: no operator has looked at it yet"]
    if line.gpus:
        parts.append(several(line.gpus, "GPU"))
    if line.progress:
        parts.append(cell(line.progress))
    if line.remaining_seconds is not None:
        parts.append(f"{lasting(line.remaining_seconds)} left")
    if line.ending and not line.finished:
        parts.append("asked to end")
    return f"[bold]{cell(line.namespace)}/{cell(line.name)}[/bold]  " + " · ".join(parts)


def _facts(detail: "JobDetail", at: datetime) -> dict[str, str]:
    found = {
        **facts(detail.spec),
        "placed": _placed(detail),
        "company": _company(detail),
        "times": _times(detail, at),
        "work": _work(detail),
        "metrics": ", ".join(f"{name} {number(value)}" for name, value in detail.metrics.items()),
        "past": _past(detail),
    }
    if detail.line.message and not detail.reasons and detail.failure is None:
        found["message"] = detail.line.message
    return {heading: words for heading, words in found.items() if words}


def _company(detail: "JobDetail") -> str:
    """Whom it shares its GPUs with, or why it waits and shares nobody's."""
    if detail.company is not None:
        return company_line(detail.company)
    return "" if detail.no_company is None else no_company_line(detail.no_company)


def _placed(detail: "JobDetail") -> str:
    if not detail.line.nodes:
        return ""
    seats = ", ".join(f"{seat.node} ({seat.gpus})" for seat in detail.seats)
    return f"{seats}; epoch {detail.epoch}"


def _times(detail: "JobDetail", at: datetime) -> str:
    line = detail.line
    words = [f"submitted {age(line.submitted_at, at)} ago"]
    words.append(f"waited {lasting(line.waited_seconds(at))}")
    ran = line.ran_seconds(at)
    if ran is not None:
        words.append(f"{'ran' if line.ended_at else 'running for'} {lasting(ran)}")
    if line.ended_at is not None:
        words.append(f"ended {age(line.ended_at, at)} ago")
    return ", ".join(words)


def _work(detail: "JobDetail") -> str:
    work = detail.work
    if not work:
        return ""
    total = f" of {number(work['total'])}" if work.get("total") else ""
    saved = f", {number(work['saved'])} saved" if work.get("saved") else ""
    every = work.get("saveEverySeconds")
    often = f", saves every {lasting(every)}" if every else ""
    return f"{number(work.get('done') or 0)}{total} {work.get('unit', '')}{saved}{often}"


def _past(detail: "JobDetail") -> str:
    past = detail.past
    hours = (past.get("attainedGpuSeconds") or 0) / 3600
    words = [f"{number(hours)} GPU-hours"] if hours else []
    for noun in ("preemption", "failure", "refusal"):
        if past.get(f"{noun}s"):
            words.append(several(int(past[f"{noun}s"]), noun))
    return ", ".join(words)


def _workers(workers: "tuple[WorkerLine, ...]", at: datetime, pods: bool) -> "Table":
    left = len(workers) - SHOWN_WORKERS
    table = new_table("Workers", caption=f"and {left} more" if left > 0 else "")
    where = ("pod", "node") if pods else ("process",)
    for title in ("rank", "epoch", *where, "phase", "exit", "age", "message"):
        right = title in ("rank", "epoch", "exit", "age")
        table.add_column(title, justify="right" if right else "left")
    for line in workers[:SHOWN_WORKERS]:
        exit_code = "" if line.exit_code is None else str(line.exit_code)
        table.add_row(
            *(str(line.rank), str(line.epoch)),
            *((cell(line.pod), cell(line.node)) if pods else (cell(line.uid),)),
            *(coloured(line.phase), exit_code, age(line.created_at, at)),
            cell(line.message) if line.message else "",
        )
    return table


def _events(events: "Iterable[EventLine]", at: datetime) -> "Table":
    table = new_table("Events")
    for title in ("ago", "times", "reason", "message"):
        table.add_column(title, justify="right" if title in ("ago", "times") else "left")
    for line in events:
        style = "yellow" if line.warning else ""
        reason = f"[{style}]{cell(line.reason)}[/{style}]" if style else cell(line.reason)
        times = f"{line.times:,}" if line.times > 1 else ""
        table.add_row(age(line.at, at), times, reason, cell(line.message))
    return table
