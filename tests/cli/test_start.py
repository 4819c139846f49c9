"""Commands that only look start quickly: they load a socket and no server, solver or validator."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft as package
from tests.api.memory import a_running_job
from tests.api.served import Served, serving
from weft.api.backend import JobKey
from weft.api.peer import user_name

HEAVY = (
    *("fastapi", "starlette", "uvicorn", "pydantic", "sqlalchemy", "httpx", "yaml", "numpy"),
    *(
        "aiohttp",
        "kubernetes_asyncio",
        "weft.kube",
        "weft.local",
        "weft.spec.job_file",
        "weft.brain",
    ),
)
COMMANDS = {
    "ls": ("ls",),
    "ls json": ("ls", "-o", "json"),
    "show": ("show", "job"),
    "why": ("why", "job"),
    "logs": ("logs", "job"),
    "wait": ("wait", "job", "--for", "running"),
    "cancel": ("cancel", "job"),
    "top": ("top",),
    "nodes": ("nodes",),
    "queues": ("queues",),
    "doctor": ("doctor",),
    "status": ("local", "status"),
}
NEEDED = "import click, http.client, rich.table"
MAX_TIMES_NEEDED = 1.5


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("start") / "weft.sock") as made:
        made.do(made.world.put(a_running_job(JobKey(user_name(os.geteuid()), "job"))))
        yield made


def python(served: Served, *words: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(package.__file__).parents[1])
    told = {"PYTHONPATH": source, "WEFT_CONTEXT": "local", "WEFT_LOCAL_SOCKET": str(served.socket)}
    return subprocess.run(
        [sys.executable, *words], check=True, capture_output=True, text=True, env=os.environ | told
    )


def modules_of(served: Served, code: str) -> set[str]:
    """What a fresh interpreter has imported after this code."""
    words = f"import sys\n{code}\nprint('\\nloaded', *sys.modules, file=sys.stderr)"
    return set(python(served, "-c", words).stderr.rpartition("\nloaded ")[2].split())


def calling(*words: str) -> str:
    return (
        "from weft.cli.main import main\n"
        f"try:\n    main({list(words)!r})\n"
        "except SystemExit as left:\n    assert not left.code"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_loads_nothing_heavy(served: Served, name: str) -> None:
    loaded = modules_of(served, calling(*COMMANDS[name]))
    assert not [name for name in loaded if name in HEAVY]
    assert "weft.api.client" in loaded


def test_a_list_loads_few_modules(served: Served) -> None:
    """Few beside those that any command needs: a parser, a connection and a table."""
    needed, loaded = modules_of(served, NEEDED), modules_of(served, calling("ls"))
    assert len(loaded) <= MAX_TIMES_NEEDED * len(needed), sorted(loaded - needed)
