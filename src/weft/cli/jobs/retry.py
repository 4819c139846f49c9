"""`weft retry`: jobs that failed or were cancelled wait once more."""

import click

from weft.cli.completion.candidates import jobs_in
from weft.cli.options import output_option
from weft.cli.terminal.screen import print_json, say
from weft.cli.worlds.place import Place, place_options
from weft.cli.worlds.world import World, located

SCHEMA = "weft-retried/1"


@click.command()
@click.argument(
    "jobs", metavar="JOB...", nargs=-1, required=True, shell_complete=jobs_in("Failed", "Cancelled")
)
@place_options
@output_option()
def retry(*, jobs: tuple[str, ...], place: Place, output: str) -> None:
    """Try each JOB again that failed or was cancelled, on this machine.

    It is the same job: it goes on from what it has saved, and what it printed before is still
    there (weft logs --epoch N). Its retries are counted anew.
    """

    async def work(world: World) -> None:
        lines = [await world.retry(located(job, world)) for job in jobs]
        names = [f"{line.namespace}/{line.name}" for line in lines]
        if output == "json":
            print_json({"schema": SCHEMA, "jobs": names})
            return
        for name in names:
            click.echo(name)
        say(f"next: {place.command('why', jobs[0])}")

    place.run(work)
