"""`weft spec init`: a first job file."""

from pathlib import Path

import click

from weft.cli.terminal.screen import say
from weft.model.errors import SpecError, WeftError


@click.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--name", help="Name of the job.  [default: FILE's, or my-job]")
@click.option("--force", is_flag=True, help="Write over a FILE that is there.")
def init(file: Path | None, name: str | None, force: bool) -> None:
    """Print a job file that runs as it is in the present world, with comments; or write FILE.

    Without any world it is one for a cluster, which also runs on one machine.
    """
    from weft.cli.jobs.job_source import checked_name
    from weft.spec.template import DEFAULT_NAME, job_template

    given = name or (file.name.partition(".")[0] if file else DEFAULT_NAME)
    text = job_template(checked_name(given), local=_is_local())
    if file is None:
        click.echo(text, nl=False)
        return
    if file.exists() and not force:
        raise SpecError(f"'{file}' is there already", hint="--force writes over it")
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SpecError(
            f"{file}: cannot be written: {error.strerror}", hint="check the path"
        ) from None
    say(f"next: weft spec check {file}, then weft submit {file}")


def _is_local() -> bool:
    """Whether the present world is this machine; nobody is asked but a socket."""
    from weft.cli.worlds.contexts import chosen

    try:
        return chosen().local
    except WeftError:
        return False
