"""Help: what people see first, frozen; and quick, because it loads nothing it does not need."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

import weft as package
from tests.cli.called import Weft, expect_snapshot
from weft.cli import front
from weft.cli.checkpoint import group as checkpoint
from weft.cli.context import group as context
from weft.cli.entry import Entry
from weft.cli.local import group as local
from weft.cli.recipes import group as recipes
from weft.cli.root import weft as group
from weft.cli.spec import group as spec
from weft.cli.trace import group as trace

GROUPS = {
    "checkpoint": checkpoint,
    "context": context,
    "local": local,
    "recipes": recipes,
    "spec": spec,
    "trace": trace,
}
COMMANDS = [
    *((name,) for name in ("", *front.COMMANDS)),
    *((group, name) for group, module in GROUPS.items() for name in module.COMMANDS),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: "-".join(words) or "weft")
def test_help_is_what_it_was(weft: Weft, command: tuple[str, ...]) -> None:
    called = weft(*filter(None, command), "--help")
    assert called.status == 0
    assert called.err == ""
    # Versions of click differ in whether the command of a group stands in brackets.
    text = called.out.replace("[COMMAND]", "COMMAND")
    expect_snapshot(f"help-{'-'.join(command) or 'weft'}.txt", text)


@pytest.mark.parametrize("group", [(), ("checkpoint",), ("local",), ("spec",), ("trace",)])
def test_a_group_by_itself_shows_its_help(weft: Weft, group: tuple[str, ...]) -> None:
    assert weft(*group).out == weft(*group, "--help").out


@pytest.mark.parametrize(
    "entry",
    [entry for module in (front, *GROUPS.values()) for entry in module.COMMANDS.values()],
    ids=lambda entry: entry.where,
)
def test_every_line_of_the_table_leads_to_a_command(entry: Entry) -> None:
    module, _, name = entry.where.partition(":")
    assert getattr(import_module(module), name).help
    assert entry.help.endswith(".")


def test_version(weft: Weft) -> None:
    assert weft("--version").out == f"weft {package.__version__}\n"


def python(*words: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(package.__file__).parents[1])
    return subprocess.run(
        [sys.executable, *words],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": source},
    )


def test_help_loads_only_the_front_page() -> None:
    """Not even a module of the standard library, so that it costs little more than Python."""
    names = "print(*sys.modules, file=sys.stderr)"
    code = f"import sys\nfrom weft.cli.main import main\nmain(['--help'])\n{names}"
    loaded, bare = (
        set(python("-c", words).stderr.split()) for words in (code, f"import sys\n{names}")
    )
    own = {"weft", "weft.cli", "weft.cli.entry", "weft.cli.front", "weft.cli.main"}
    assert loaded - bare == own


@pytest.mark.parametrize("columns", [40, 52, 80, 83, 100, 240])
def test_the_front_page_is_what_the_group_would_show(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    context = click.Context(group, info_name="weft", **group.context_settings)
    shown = group.get_help(context).replace("[COMMAND]", "COMMAND")
    assert front.front_page(columns) == shown


def test_it_fits_the_terminal_or_eighty_columns(
    weft: Weft, monkeypatch: pytest.MonkeyPatch
) -> None:
    for given, columns in (("60", 60), ("wide", 80), ("0", 80)):
        monkeypatch.setenv("COLUMNS", given)
        assert weft().out == front.front_page(columns) + "\n"
