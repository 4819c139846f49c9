"""`docs/cli.md`, written from the commands themselves: `python -m weft.cli.page > docs/cli.md`.

A test holds the page against this text, so that neither an option nor an exit status can change
without its documentation.
"""

import inspect
import sys
from collections.abc import Iterator
from itertools import groupby

import click

from weft.cli.exit_status import Exit
from weft.cli.lazy import LazyGroup
from weft.cli.root import weft

ABOUT = """\
# The command line

This page is written by `python -m weft.cli.page` from the commands themselves.

Commands for jobs speak to a *world*: this machine, or a cluster. `weft context` shows which one,
`weft context use` chooses it for all commands, `--context` and `WEFT_CONTEXT` for one. Where nobody
has chosen, a world on this machine is meant if one answers, else the cluster of the kubeconfig. On
a terminal every command says which one it is, in one line on standard error; `weft -v` does so into
a pipe too.

- *This machine*: `weft local up` starts a daemon, and commands speak to it over a Unix socket
  (`WEFT_LOCAL_SOCKET` names another). The kernel says who asks: everybody may read the list of
  jobs, and only owners and root see into them. The daemon comes with `pip install '.[local]'`;
  [api.md](api.md) is for programs.
- *A cluster*: commands work over your kubeconfig alone. They read and write the custom resources,
  never the operator, so they need no rights but yours and work while the operator is down. They
  come with `pip install '.[kube]'`.

The lab and `weft spec` need neither.

- Data goes to standard output, talk to standard error. A table has a JSON twin (`-o json`) whose
  field `schema` names its version; with `--watch` it is one JSON document per line.
- Colours are left out in a pipe, with `--no-color`, and where `NO_COLOR` is set. Nothing is said by
  colour alone. What a world sends cannot steer your terminal.
- `JOB` is a name in the present namespace, or `NAMESPACE/NAME`; on one machine, a name of your own
  or `USER/NAME`. A job that does not exist is an error at once, with the names that sound like it.
- Before something changes you are asked, if you sit at a terminal; `-y` spares the question and
  `--dry-run` lets the server check everything and change nothing.
- `weft completion bash >> ~/.bashrc` lets TAB complete commands, options, and the names of jobs,
  queues, recipes and contexts; zsh and fish have theirs.
- Ctrl-C leaves a job alone, and says so; only `weft launch` is the job itself, and stops.

## Exit statuses
"""


def page() -> str:
    """The whole page."""
    context = click.Context(weft, info_name="weft", **weft.context_settings)
    return "\n".join([ABOUT, _statuses(), *_group(weft, context)])


def _statuses() -> str:
    rows = "".join(f"| {status.value} | {status.meaning} |\n" for status in Exit)
    return f"| status | meaning |\n|---|---|\n{rows}"


def _group(group: click.Group, context: click.Context) -> Iterator[str]:
    assert isinstance(group, LazyGroup)
    for section, rows in groupby(group.entries.items(), key=lambda row: row[1].section):
        if context.parent is None:
            yield f"## {section}\n"
        for name, _ in rows:
            command = group.get_command(context, name)
            assert command is not None
            inner = click.Context(command, parent=context, info_name=name)
            yield _command(command, inner)
            if isinstance(command, click.Group):
                yield from _group(command, inner)


def _command(command: click.Command, context: click.Context) -> str:
    parts = [f"### {context.command_path}\n", f"    {_usage(command, context)}\n"]
    parts.append(inspect.cleandoc(command.help or "") + "\n")
    given = (param for param in command.params if isinstance(param, click.Option))
    options = [option for option in given if not option.hidden]
    if options:
        rows = "".join(f"| `{_names(option)}` | {_help(option)} |\n" for option in options)
        parts.append(f"| option | meaning |\n|---|---|\n{rows}")
    schema = getattr(inspect.getmodule(command.callback), "SCHEMA", None)
    if schema:
        parts.append(f"Schema of its JSON: `{schema}`.\n")
    return "\n".join(parts)


def _usage(command: click.Command, context: click.Context) -> str:
    if isinstance(command, click.Group):
        return f"{context.command_path} COMMAND"
    words = [context.command_path]
    for param in command.params:
        if isinstance(param, click.Argument):
            word = param.metavar or (param.name or "").upper()
            words.append(word if param.required or word.startswith("[") else f"[{word}]")
    return " ".join([*words, "[OPTIONS]"])


def _names(option: click.Option) -> str:
    names = ", ".join(option.opts)
    if option.is_flag:
        return names
    return f"{names} {_value(option)}"


def _value(option: click.Option) -> str:
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return "\\|".join(str(choice) for choice in option.type.choices)
    return {"integer range": "NUMBER", "float range": "NUMBER", "integer": "NUMBER"}.get(
        option.type.name, option.type.name.upper()
    )


def _help(option: click.Option) -> str:
    text = (option.help or "").replace("|", "\\|").replace("  [default", " [default")
    shown = option.show_default and option.default not in (None, "", ())
    return f"{text} [default: {option.default}]" if shown else text


if __name__ == "__main__":
    sys.stdout.write(page())
