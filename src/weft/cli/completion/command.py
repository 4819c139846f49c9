"""`weft completion`: the lines for a shell's own file."""

import os
from pathlib import PurePath

import click

from weft.model.errors import SpecError

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_WEFT_COMPLETE"


@click.command()
@click.argument("shell", required=False, metavar="[bash|zsh|fish]")
def completion(shell: str | None) -> None:
    """Print what makes TAB complete commands, options, jobs, recipes, queues and contexts.

    Once for bash: weft completion bash >> ~/.bashrc. For zsh: ~/.zshrc. For fish:
    ~/.config/fish/completions/weft.fish. Without an argument, for the shell of $SHELL.
    """
    from click.shell_completion import get_completion_class

    name = shell or PurePath(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        told = f"'{name}' is no shell that this knows" if name else "which shell?"
        raise SpecError(told, hint=f"weft completion {'|'.join(SHELLS)}")
    from weft.cli.root import weft

    kind = get_completion_class(name)
    assert kind is not None, name
    # The script alone: whether it suits the shell that will read it cannot be seen from here.
    made = kind(weft, {}, "weft", VARIABLE)
    click.echo(made.source_template % made.source_vars())
