"""`weft submit`: a job file becomes a job, after a look at what it asks for."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from weft.cli.cluster import DRY_RUN, YES, Cluster, Place, place_options
from weft.cli.confirm import confirmed
from weft.cli.job_source import name_for, read_job
from weft.cli.job_words import facts, several
from weft.cli.options import output_option
from weft.cli.screen import cell, fact_table, print_json, say, stderr

if TYPE_CHECKING:
    from rich.table import Table

    from weft.kube.reading.queues import QueueLine

SCHEMA = "weft-submitted/1"


@click.command()
@click.argument("file")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Another value for a field, such as resources.gpus=8; may be repeated.",
)
@click.option("--name", help="Another name.  [default: the one in FILE, or FILE's own]")
@DRY_RUN
@YES
@place_options
@output_option()
def submit(
    *,
    file: str,
    overrides: tuple[str, ...],
    name: str | None,
    dry_run: bool,
    yes: bool,
    place: Place,
    output: str,
) -> None:
    """Submit the job that FILE describes; - reads it from standard input.

    It is checked here first and shown; on a terminal you are asked before anything is sent. With
    --dry-run the exact object is printed, and the server is asked whether it would take it.
    """
    job_file = read_job(file, overrides)
    named = name_for(file, job_file, name)

    async def work(cluster: Cluster) -> None:
        from weft.kube.wishes import submit as send
        from weft.kube.wishes import training_job

        job = training_job(job_file.spec, namespace=cluster.namespace, name=named)
        if dry_run:
            _print_object(job, output)
            await send(cluster.api, job, dry_run=True)
            say("dry run: the server would take this job; nothing was created")
            return
        if output != "json":
            await _show_plan(cluster, job)
        if not yes:
            confirmed("submit it?", otherwise="nothing was submitted", default=True)
        _tell(await send(cluster.api, job), place, output)

    place.run(work)


def plan_of(job: Mapping[str, Any], queue: "QueueLine | None") -> "Table":
    """What would be submitted, and how its queue stands."""
    meta, spec = job["metadata"], job["spec"]
    rows = {"job": meta["name"], "namespace": meta["namespace"], **facts(spec)}
    if queue is not None:
        rows["queue now"] = _standing(queue)
    return fact_table(rows)


def remarks_on(job: Mapping[str, Any], queues: "tuple[QueueLine, ...]") -> list[str]:
    """What would make it wait for ever, as far as the queues tell."""
    name, namespace = job["spec"].get("queue", "default"), job["metadata"]["namespace"]
    queue = next((each for each in queues if each.name == name), None)
    if queue is None:
        known = ", ".join(each.name for each in queues if each.serves(namespace))
        return [f"there is no queue '{name}'" + (f"; there are {known}" if known else "")]
    if not queue.serves(namespace):
        return [f"queue '{name}' takes no jobs of namespace '{namespace}'"]
    return [f"queue '{name}' is not ready: {queue.message}"] if queue.ready is False else []


async def _show_plan(cluster: Cluster, job: Mapping[str, Any]) -> None:
    """Whoever may not read queues sees the plan without them."""
    from weft.kube.client.errors import Forbidden
    from weft.kube.reading.queues import list_queues

    try:
        queues = await list_queues(cluster.api)
    except Forbidden:
        stderr().print(plan_of(job, None))
        return
    name = job["spec"].get("queue", "default")
    stderr().print(plan_of(job, next((q for q in queues if q.name == name), None)))
    for remark in remarks_on(job, queues):
        say(f"warning: {remark}")


def _standing(queue: "QueueLine") -> str:
    used = f"{several(queue.used or 0, 'GPU')} used"
    promised = [] if queue.guaranteed is None else [f"{queue.guaranteed} guaranteed"]
    promised += [] if queue.limit is None else [f"at most {queue.limit}"]
    return ", ".join([used, *promised, f"{several(queue.waiting or 0, 'job')} waiting"])


def _print_object(job: Mapping[str, Any], output: str) -> None:
    if output == "json":
        print_json(job)
        return
    import yaml

    click.echo(yaml.safe_dump(job, sort_keys=False, allow_unicode=True), nl=False)


def _tell(made: Mapping[str, Any], place: Place, output: str) -> None:
    """The job on standard output; what to do next beside it."""
    meta = made["metadata"]
    name = meta["name"]
    if output == "json":
        fields = {"namespace": meta["namespace"], "name": name, "uid": meta["uid"]}
        print_json({"schema": SCHEMA, **fields, "spec": made["spec"]})
    else:
        click.echo(f"{meta['namespace']}/{name}")
    nexts = {
        place.command("why", name): "why it waits",
        place.command("show", name): "what it holds, and its workers",
        place.command("logs", "-f", name): "what it prints, until it ends",
        place.command("cancel", name): "end it",
    }
    widest = max(map(len, nexts))
    say("next:")
    for command, purpose in nexts.items():
        say(f"  {command.ljust(widest)}   {cell(purpose)}")
