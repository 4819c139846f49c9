"""`weft replay`: the test of a journal."""

from dataclasses import asdict
from pathlib import Path

import click

from weft.cli.options import output_option
from weft.cli.terminal.screen import print_json, say
from weft.cli.terminal.waiting import waiting


@click.command()
@click.argument("journal", type=click.Path(path_type=Path))
@output_option()
def replay(journal: Path, output: str) -> None:
    """Feed JOURNAL, or the journal of a run folder, to a fresh brain and compare every byte."""
    from weft.lab.journals.replay import check_hash
    from weft.lab.journals.replay import replay as run_again
    from weft.lab.run_dir import MANIFEST, journal_in, read_manifest

    path = journal_in(journal) if journal.is_dir() else journal
    with waiting("replaying") as progress:
        replayed = run_again(path, progress=progress)
    if (path.parent / MANIFEST).is_file():
        check_hash(replayed, str(read_manifest(path.parent).get("journal_hash")))
    if replayed.torn:
        say(f"note: the line after record {replayed.records:,} is cut short; all before it replays")
    if output == "json":
        print_json(asdict(replayed))
    else:
        click.echo(
            f"{replayed.records:,} records of {replayed.recipe} replay bit for bit · "
            f"hash {replayed.journal_hash}"
        )
