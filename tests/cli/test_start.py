"""Commands that only look start quickly: they load a socket and no server, solver or validator."""

import os
import resource
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
WHAT_ANY_COMMAND_NEEDS = "import click, http.client, rich.table"
MOST_TIMES_THAT = 3.0
RUNS = 5


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


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_loads_nothing_heavy(served: Served, name: str) -> None:
    code = (
        "import sys\nfrom weft.cli.main import main\n"
        f"try:\n    main({list(COMMANDS[name])!r})\n"
        "except SystemExit as left:\n    assert not left.code\n"
        "print('\\nloaded', *sys.modules, file=sys.stderr)"
    )
    loaded = python(served, "-c", code).stderr.rpartition("\nloaded ")[2].split()
    assert not [name for name in loaded if name in HEAVY]
    assert "weft.api.client" in loaded


@pytest.mark.slow
@pytest.mark.alone
def test_a_list_is_there_at_once(served: Served) -> None:
    """In processor time, of which a busy machine takes nothing away, and turn by turn."""
    bare: list[float] = []
    listed: list[float] = []
    for _ in range(RUNS):
        for times, words in (
            (bare, ("-c", WHAT_ANY_COMMAND_NEEDS)),
            (listed, ("-m", "weft.cli.main", "ls")),
        ):
            before = _child_seconds()
            python(served, *words)
            times.append(_child_seconds() - before)
    assert min(listed) <= MOST_TIMES_THAT * min(bare), (min(listed), min(bare))


def _child_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
