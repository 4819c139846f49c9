"""A last question before something is done; only where somebody is there to answer it."""

import sys

import click

from weft.cli.exit_status import Exit
from weft.cli.terminal.screen import say


def confirmed(question: str, *, otherwise: str, default: bool = False) -> None:
    """Go on after a yes, and where nobody sits at a terminal; leave after a no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if not click.confirm(question, default=default, err=True):
        say(otherwise)
        raise click.exceptions.Exit(Exit.FAILED)
