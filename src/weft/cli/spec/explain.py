"""`weft spec explain`: the job file, field by field."""

from dataclasses import asdict

import click

from weft.cli.completion.candidates import fields
from weft.cli.options import output_option
from weft.cli.terminal.screen import print_json

SCHEMA = "weft-field/1"


@click.command()
@click.argument("field", default="", metavar="[FIELD]", shell_complete=fields)
@output_option()
def explain(field: str, output: str) -> None:
    """Tell what FIELD of a job file means and what may stand there; without it, list them all."""
    from weft.spec.explain import help_on, help_text

    about = help_on(field)
    if output == "json":
        print_json({"schema": SCHEMA, **asdict(about)})
    else:
        click.echo(help_text(about), nl=False)
