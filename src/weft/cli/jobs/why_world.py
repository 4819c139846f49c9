"""`weft why` for a job of a world: the reasons that whoever decides wrote down."""

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from weft.cli.jobs.show import reason_lines
from weft.cli.terminal.age import lasting, now, told_ago
from weft.cli.terminal.screen import cell, coloured, print_json, say, stdout
from weft.cli.worlds.place import Place
from weft.cli.worlds.world import located

if TYPE_CHECKING:
    from weft.view.jobs import JobDetail, Standing
    from weft.view.queues import QueueLine

SCHEMA = "weft-waiting/1"


def why_in_world(place: Place, job: str, output: str) -> None:
    standing = place.run(lambda world: world.why(located(job, world)))
    at = now()
    if output == "json":
        print_json(as_dict(standing, at))
        return
    console = stdout()
    console.print(first_line(standing, at))
    for line in reason_lines(standing.detail):
        console.print(line)
    if not standing.detail.reasons:
        console.print(_without_reasons(standing.detail))
    if told := told_ago(standing.detail.line.told_at, at):
        say(told)
    if not standing.detail.line.state:
        say("hint: weft doctor tells whether an operator is at work")


def first_line(standing: "Standing", at: datetime) -> str:
    line, queue = standing.detail.line, standing.queue
    parts = [coloured(line.state) if line.state else "New"]
    parts.append(f"waited {lasting(line.waited_seconds(at))}")
    parts.append(f"{cell(line.asked_gpus)} {'GPU' if line.asked_gpus == '1' else 'GPUs'}")
    parts.append(f"queue {cell(line.queue)}" + (f" ({_use(queue)})" if queue else ""))
    return f"[bold]{cell(line.namespace)}/{cell(line.name)}[/bold]: " + " · ".join(parts)


def as_dict(standing: "Standing", at: datetime) -> dict[str, Any]:
    line, queue = standing.detail.line, standing.queue
    return {
        "schema": SCHEMA,
        "namespace": line.namespace,
        "job": line.name,
        "state": line.state,
        "waited_seconds": line.waited_seconds(at),
        "asked_gpus": line.asked_gpus,
        "gpus": line.gpus,
        "queue": line.queue,
        "queue_used_gpus": queue.used if queue else None,
        "queue_limit_gpus": queue.limit if queue else None,
        "queue_waiting_jobs": queue.waiting if queue else None,
        "message": line.message,
        "told_at": line.told_at,
        "reasons": [asdict(reason) for reason in standing.detail.reasons],
    }


def _use(queue: "QueueLine") -> str:
    bound = "" if queue.limit is None else f" of {queue.limit}"
    used = f"{queue.used or 0}{bound} GPUs used"
    return f"{used}, {queue.waiting or 0} waiting"


def _without_reasons(detail: "JobDetail") -> str:
    line = detail.line
    if not line.state:
        return "No operator has looked at it yet."
    told = f" {cell(line.message)}" if line.message else ""
    if line.waiting:
        return f"No reason is written down yet.{told}"
    return f"It does not wait.{told}"
