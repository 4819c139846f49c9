"""`weft checkpoint export`: Weft's state as safetensors or DCP."""

from pathlib import Path

import click

from weft.cli.checkpoint.words import FOLDER, needs_torch, size
from weft.cli.terminal.screen import say
from weft.cli.terminal.waiting import waiting


@click.command()
@FOLDER
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--step", type=click.IntRange(0), help="Which one.  [default: the newest sound one]")
@click.option(
    "--format",
    "form",
    type=click.Choice(["safetensors", "dcp"]),
    default="safetensors",
    show_default=True,
    help="Files for hubs and any framework, or for torch.distributed.checkpoint.",
)
def export(*, folder: Path, out: Path, step: int | None, form: str) -> None:
    """Write a checkpoint of FOLDER to OUT, a new folder, for other programs to read.

    The parts of each tensor are put together and compared with their digests. The model's tensors
    have the names that its state_dict gives them; what is no tensor goes to weft.json, so that
    weft checkpoint import brings everything back, bit for bit.
    """
    from weft.agent.checkpoint.catalogue import chosen, root_of

    found = chosen(root_of(folder), step)
    if not found.usable:
        raise click.ClickException(f"step {found.step} is {found.soundness}: {found.why}")
    with needs_torch(), waiting("exporting") as progress:
        from weft.train.exchange.exporting import export as write

        count = write(found, out, form, progress)
    say(f"step {found.step:,}, {size(count)}, in {out}")
