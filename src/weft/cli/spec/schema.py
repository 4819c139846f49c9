"""`weft spec schema`: for editors that complete and check what is typed."""

import click


@click.command()
def schema() -> None:
    """Print the JSON Schema of the job file.

    Save it, and put `# yaml-language-server: $schema=PATH` on the first line of a job file.
    """
    from weft.spec.schema import schema_text

    click.echo(schema_text(), nl=False)
