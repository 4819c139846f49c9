"""Help: what people see first, frozen; and quick, because it loads nothing it does not need."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from time import perf_counter

import pytest

import weft as package
from tests.cli.called import Weft, expect_snapshot
from weft.cli import checkpoint, context, local, main, recipes, spec, trace
from weft.cli.lazy import Entry

HEAVY = (
    *("numpy", "scipy", "pydantic", "rich", "yaml", "orjson"),
    *("asyncio", "aiohttp", "kubernetes_asyncio", "weft.kube", "weft.lab", "weft.trace"),
)
MOST_TIMES_PYTHON = 6.0
RUNS = 7

GROUPS = {
    "checkpoint": checkpoint,
    "context": context,
    "local": local,
    "recipes": recipes,
    "spec": spec,
    "trace": trace,
}
COMMANDS = [
    *((name,) for name in ("", *main.COMMANDS)),
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
    [entry for module in (main, *GROUPS.values()) for entry in module.COMMANDS.values()],
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


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom weft.cli.main import main\nmain(['--help'])\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    loaded = python("-c", code).stderr.split()
    assert not [name for name in loaded if name in HEAVY]
    assert "click" in loaded


@pytest.mark.slow
@pytest.mark.alone
def test_help_is_quick() -> None:
    """Taken turn by turn, so that a busy machine slows both."""
    bare: list[float] = []
    help_: list[float] = []
    for _ in range(RUNS):
        for times, words in ((bare, ("-c", "pass")), (help_, ("-m", "weft.cli.main", "--help"))):
            begun = perf_counter()
            python(*words)
            times.append(perf_counter() - begun)
    assert min(help_) <= MOST_TIMES_PYTHON * min(bare)
