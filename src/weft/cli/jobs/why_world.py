"""`weft why` for a job of a world: the reasons that whoever decides wrote down.

A job that runs is told what more GPUs would bring it, one that is over how and when it ended, and
one that waits for GPUs who has them, as far as the reader may see.
"""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from weft.api.backend import Selection
from weft.cli.jobs.job_words import several
from weft.cli.jobs.plan_words import plan_lines
from weft.cli.jobs.show import failure_lines, reason_lines
from weft.cli.terminal.age import lasting, now, told_ago
from weft.cli.terminal.screen import cell, coloured, print_json, say, stdout
from weft.cli.worlds.place import Place
from weft.cli.worlds.world import World, located
from weft.model.errors import WorldError
from weft.view.company import company_line, no_company_line
from weft.view.states import HOLDING
from weft.view.use import widest_first

if TYPE_CHECKING:
    from weft.view.jobs import Growth, JobLine, Standing
    from weft.view.queues import QueueLine

SCHEMA = "weft-waiting/1"
SHOWN_HOLDERS = 5
HELD_UP_BY_OTHERS = ("Capacity.Busy", "Fragmentation.", "Priority.", "Reservation.", "Quota.")
ORDINALS = {1: "a second", 2: "a third", 3: "a fourth"}
Holders = tuple["JobLine", ...]


def why_in_world(place: Place, job: str, output: str) -> None:
    async def work(world: World) -> "tuple[Standing, Holders]":
        standing = await world.why(located(job, world))
        return standing, await holders_of(world, standing)

    standing, holders = place.run(work)
    at = now()
    if output == "json":
        print_json(as_dict(standing, holders, at))
        return
    console = stdout()
    console.print(first_line(standing, at))
    for line in (*reason_lines(standing.detail), *_told(standing, holders, at)):
        console.print(line)
    if told := told_ago(standing.detail.line.told_at, at):
        say(told)
    if not standing.detail.line.state:
        say("hint: weft doctor tells whether an operator is at work")


async def holders_of(world: World, standing: "Standing") -> Holders:
    """Who has what it waits for, the widest first; of others only where one may see them."""
    codes = [reason.code for reason in standing.detail.reasons]
    if not any(code.startswith(HELD_UP_BY_OTHERS) for code in codes):
        return ()
    for owner in (None, world.namespace):
        try:
            return widest_first((await world.jobs(Selection(owner, HOLDING))).jobs)
        except WorldError:
            continue
    return ()


def first_line(standing: "Standing", at: datetime) -> str:
    line, queue = standing.detail.line, standing.queue
    parts = [coloured(line.state) if line.state else "New"]
    parts.append(f"waited {lasting(line.waited_seconds(at))}")
    if line.finished and line.ran_seconds(at) is not None:
        parts.append(f"ran {lasting(line.ran_seconds(at))}")
    parts.append(f"{cell(line.asked_gpus)} {'GPU' if line.asked_gpus == '1' else 'GPUs'}")
    parts.append(f"queue {cell(line.queue)}" + (f" ({_use(queue)})" if queue else ""))
    return f"[bold]{cell(line.namespace)}/{cell(line.name)}[/bold]: " + " · ".join(parts)


def as_dict(standing: "Standing", holders: Holders, at: datetime) -> dict[str, Any]:
    line, queue = standing.detail.line, standing.queue
    return {
        "schema": SCHEMA,
        "namespace": line.namespace,
        "job": line.name,
        "state": line.state,
        "waited_seconds": line.waited_seconds(at),
        "ended_at": line.ended_at,
        "asked_gpus": line.asked_gpus,
        "gpus": line.gpus,
        "queue": line.queue,
        "queue_used_gpus": queue.used if queue else None,
        "queue_limit_gpus": queue.limit if queue else None,
        "queue_waiting_jobs": queue.waiting if queue else None,
        "message": line.message,
        "told_at": line.told_at,
        "reasons": [asdict(reason) for reason in standing.detail.reasons],
        "failure": asdict(standing.detail.failure) if standing.detail.failure else None,
        "growth": asdict(standing.growth) if standing.growth else None,
        "company": asdict(standing.detail.company) if standing.detail.company else None,
        "no_company": asdict(standing.detail.no_company) if standing.detail.no_company else None,
        "plan": asdict(standing.detail.plan) if standing.detail.plan else None,
        "holders": [
            {
                "namespace": holder.namespace,
                "job": holder.name,
                "gpus": holder.gpus,
                "remaining_seconds": holder.remaining_seconds,
            }
            for holder in holders
        ],
    }


def growth_words(growth: "Growth") -> str:
    """`1 of 4 GPUs: a second would bring 3 %`."""
    held = f"{growth.gpus} of {several(growth.most, 'GPU')}"
    if growth.gpus >= growth.most:
        return f"{held}: all that it may have"
    if growth.gain is None:
        return f"{held}: what more would bring is not measured yet"
    more = ORDINALS.get(growth.gpus, "one more")
    percent = round(100 * growth.gain)
    return f"{held}: {more} would bring {percent} %" if percent > 0 else f"{held}: {more} is no use"


def _use(queue: "QueueLine") -> str:
    bound = "" if queue.limit is None else f" of {queue.limit}"
    of = queue.used or 0 if queue.limit is None else queue.limit
    used = f"{queue.used or 0}{bound} {'GPU' if of == 1 else 'GPUs'} used"
    return f"{used}, {queue.waiting or 0} waiting"


def _told(standing: "Standing", holders: Holders, at: datetime) -> Iterator[str]:
    """What there is to say besides the reasons, or instead of them."""
    line, growth = standing.detail.line, standing.growth
    message = f": {cell(line.message)}" if line.message else ""
    if holders:
        yield f"held by {', '.join(_holder(holder) for holder in holders[:SHOWN_HOLDERS])}" + (
            f" and {several(len(holders) - SHOWN_HOLDERS, 'more job')}"
            if len(holders) > SHOWN_HOLDERS
            else ""
        )
    if standing.detail.failure is not None:
        yield from failure_lines(standing.detail.failure)
    if standing.detail.no_company is not None:
        yield cell(no_company_line(standing.detail.no_company))
    if standing.detail.plan is not None:
        yield from map(cell, plan_lines(standing.detail.plan))
    if standing.detail.reasons:
        return
    if not line.state:
        yield "No operator has looked at it yet."
    elif line.finished:
        ago = (
            "" if line.ended_at is None else f" {lasting((at - line.ended_at).total_seconds())} ago"
        )
        told = "" if standing.detail.failure else message
        yield f"It is over: it {ENDED.get(line.state, line.state.lower())}{ago}{told}"
    elif line.waiting:
        yield f"No reason is written down yet{message or '.'}"
    else:
        yield f"It does not wait{message or '.'}"
        yield growth_words(growth) if growth else f"{line.gpus} of {cell(line.asked_gpus)} GPUs"
        if standing.detail.company is not None:
            yield f"It {cell(company_line(standing.detail.company))}."


ENDED = {"Succeeded": "succeeded", "Failed": "failed", "Cancelled": "was cancelled"}


def _holder(line: "JobLine") -> str:
    left = "" if line.remaining_seconds is None else f", {lasting(line.remaining_seconds)} left"
    return f"{cell(line.namespace)}/{cell(line.name)} ({several(line.gpus, 'GPU')}{left})"
