"""`weft checkpoint import`: what others have saved, for a job to resume from."""

from pathlib import Path

import click

from weft.cli.checkpoint.words import needs_torch, size
from weft.cli.terminal.screen import say
from weft.cli.terminal.waiting import waiting

SHOWN_REMARKS = 12


@click.command("import")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--job", help="Name of the job that will resume from it.  [default: as exported, or 'job']"
)
@click.option(
    "--step",
    type=click.IntRange(0),
    help="Its last step, counted from 0.  [default: as the optimizer has counted]",
)
@click.option(
    "--samples",
    type=click.IntRange(0),
    help="Samples that its steps have used.  [default: steps times the script's batch]",
)
def import_(
    *, source: Path, folder: Path, job: str | None, step: int | None, samples: int | None
) -> None:
    """Make a checkpoint in FOLDER, which is empty or new, of what others have saved in SOURCE.

    SOURCE is a folder of torch.distributed.checkpoint, a .safetensors file or a folder of such
    files. What weft checkpoint export has written comes back as it was. What other programs have
    written says neither how many steps were done nor which samples were used: --step and --samples
    do. A job resumes from FOLDER if its script has the same parameters under the same names.
    """
    with needs_torch(), waiting("importing") as progress:
        from weft.train.exchange.importing import Wish, bring_in

        made = bring_in(source, folder, Wish(job, step, samples), progress)
    for remark in made.remarks[:SHOWN_REMARKS]:
        say(f"note: {remark}")
    if len(made.remarks) > SHOWN_REMARKS:
        say(f"note: and {len(made.remarks) - SHOWN_REMARKS:,} more that were left out")
    say(
        f"step {made.step:,} of the job {made.job}, {size(made.bytes)} of {made.kind}, "
        f"in {made.path}"
    )
