"""A group of commands that imports a command's module only when that command is called.

The lines of `--help` stand in the group's own table, so that showing them loads neither NumPy nor a
parser nor a table printer. A test holds the table against the commands themselves.
"""

from collections.abc import Mapping
from importlib import import_module
from itertools import groupby
from typing import TYPE_CHECKING

import click

from weft.cli.entry import Entry

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyGroup(click.Group):
    """`entries` instead of commands."""

    def __init__(self, *args: object, entries: Mapping[str, Entry], **more: object) -> None:
        super().__init__(*args, **more)  # type: ignore[arg-type]
        self.entries = dict(entries)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        module, _, name = entry.where.partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command), entry.where
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = not args or args[0] in self.entries or args[0].startswith("-")
        if not known and not ctx.resilient_parsing:
            raise click.UsageError(_unknown(args[0], list(self.entries)), ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """As click does it, but from the table: no command is loaded to be offered."""
        from click.shell_completion import CompletionItem

        options = click.Command.shell_complete(self, ctx, incomplete)
        rows = self.entries.items()
        named = [(name, entry.help) for name, entry in rows if name.startswith(incomplete)]
        return [*(CompletionItem(name, help=help) for name, help in named), *options]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, self.entries))
        for title, rows in groupby(self.entries.items(), key=lambda row: row[1].section):
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), entry.help) for name, entry in rows])


def show_help_if_bare(context: click.Context) -> None:
    """A group that is called without a command says what there is."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _unknown(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1)
    meant = f" Did you mean '{near[0]}'?" if near else f" Commands: {', '.join(known)}."
    return f"no command '{name}'.{meant}"
