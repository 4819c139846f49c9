"""`weft spec check`: can these files be used?"""

from typing import Any

import click

from weft.cli.completion.candidates import files
from weft.cli.exit_status import Exit
from weft.cli.jobs.job_source import STDIN, name_of_file, read_job
from weft.cli.jobs.job_words import asked
from weft.cli.options import output_option
from weft.cli.terminal.screen import harmless, print_json, tell
from weft.model.errors import SpecError

SCHEMA = "weft-checked/1"


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, shell_complete=files)
@output_option()
def check(files: tuple[str, ...], output: str) -> None:
    """Check each FILE as a cluster would, and tell all its faults; - is standard input.

    The exit status is 2 if one of them cannot be used.
    """
    found = [_checked(file) for file in files]
    if output == "json":
        print_json({"schema": SCHEMA, "files": found})
    for line in found:
        for fault in line["faults"]:
            tell(fault["error"], fault["hint"], status=Exit.USAGE)
        if line["faults"]:
            continue
        if output != "json":
            name = line["name"] or _own_name(line["file"])
            click.echo(harmless(f"{line['file']}: {name}, {line['asks_for']}"))
    if any(line["error"] is not None for line in found):
        raise click.exceptions.Exit(Exit.USAGE)


def _own_name(file: str) -> str:
    """What a job without a name would be called."""
    try:
        return name_of_file(file)
    except SpecError:
        return "no name" if file == STDIN else "no name (submit it with --name)"


def _checked(file: str) -> dict[str, Any]:
    nothing: dict[str, Any] = {
        "file": file,
        "name": None,
        "asks_for": None,
        "error": None,
        "hint": "",
        "faults": [],
    }
    try:
        job = read_job(file)
    except SpecError as error:
        found = getattr(error, "faults", None) or (error,)
        faults = [{"error": str(one), "hint": one.hint} for one in found]
        return {**nothing, "error": str(error), "hint": error.hint, "faults": faults}
    return {**nothing, "name": job.name, "asks_for": asked(job.spec)}
