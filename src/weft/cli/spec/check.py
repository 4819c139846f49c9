"""`weft spec check`: can these files be used?"""

from typing import Any

import click

from weft.cli.completion.candidates import files
from weft.cli.exit_status import Exit
from weft.cli.jobs.job_source import read_job
from weft.cli.jobs.job_words import asked
from weft.cli.options import output_option
from weft.cli.terminal.screen import harmless, print_json, tell
from weft.model.errors import SpecError

SCHEMA = "weft-checked/1"


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, shell_complete=files)
@output_option()
def check(files: tuple[str, ...], output: str) -> None:
    """Check each FILE as a cluster would; - is standard input.

    The exit status is 2 if one of them cannot be used.
    """
    found = [_checked(file) for file in files]
    if output == "json":
        print_json({"schema": SCHEMA, "files": found})
    for line in found:
        if line["error"] is not None:
            tell(line["error"], line["hint"], status=Exit.USAGE)
        elif output != "json":
            click.echo(harmless(f"{line['file']}: {line['name'] or 'no name'}, {line['asks_for']}"))
    if any(line["error"] is not None for line in found):
        raise click.exceptions.Exit(Exit.USAGE)


def _checked(file: str) -> dict[str, Any]:
    nothing = {"file": file, "name": None, "asks_for": None, "error": None, "hint": ""}
    try:
        job = read_job(file)
    except SpecError as error:
        return {**nothing, "error": str(error), "hint": error.hint}
    return {**nothing, "name": job.name, "asks_for": asked(job.spec)}
