"""TAB in a real bash, and what it offers; a world that does not answer costs a moment only."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft as package
from tests.api.memory import a_running_job, a_waiting_job
from tests.api.served import Served, serving
from tests.cli.called import Weft
from tests.waiting import HANG_SECONDS
from weft.api.backend import JobKey
from weft.api.peer import user_name
from weft.cli.completion.candidates import PATIENCE_SECONDS

ME = user_name(os.geteuid())
SOURCE = str(Path(package.__file__).parents[1])
PRESS = r"""
source "$1"
COMP_WORDS=("${@:2}")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
COMP_TYPE=9 COMP_KEY=9
_weft_completion weft "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""
KUBECONFIG = "contexts: [{name: lab}, {name: local}]\ncurrent-context: lab\n"


PROGRAM = """#!{python}
from weft.api import connection
from weft.cli.completion import candidates
from weft.cli.main import main
connection.PATIENCE_SECONDS = 3600.0
candidates.PATIENCE_SECONDS = {patience_seconds}
main()
"""


class Shell:
    """A bash that has read the script, with `weft` in its PATH.

    A world has `patience_seconds` to answer a completion; by default it is waited for.
    """

    def __init__(self, home: Path, patience_seconds: float = HANG_SECONDS, **told: str) -> None:
        program = home / "weft"
        program.write_text(PROGRAM.format(python=sys.executable, patience_seconds=patience_seconds))
        program.chmod(0o755)
        (home / "kubeconfig").write_text(KUBECONFIG)
        self._script = home / "script"
        self._variables = {
            **{name: text for name, text in os.environ.items() if not name.startswith("WEFT_")},
            "PATH": f"{home}:{os.environ['PATH']}",
            "PYTHONPATH": SOURCE,
            "XDG_CONFIG_HOME": str(home),
            "KUBECONFIG": str(home / "kubeconfig"),
            **told,
        }
        self._script.write_bytes(self._run("weft", "completion", "bash").stdout)

    def offers(self, *words: str) -> list[str]:
        """What TAB behind the last word offers; nothing is ever printed beside it."""
        done = self._run("bash", "--norc", "-c", PRESS, "bash", str(self._script), "weft", *words)
        assert done.stderr == b"", done.stderr
        return done.stdout.decode().split()

    def _run(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(words, env=self._variables, capture_output=True, check=True)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    home = tmp_path_factory.mktemp("tab")
    with serving(home / "weft.sock") as served:
        put(served, "llama", "lora")
        yield Shell(home, WEFT_CONTEXT="local", WEFT_LOCAL_SOCKET=str(served.socket))


def put(served: Served, running: str, waiting: str) -> None:
    served.do(served.world.put(a_running_job(JobKey(ME, running))))
    served.do(served.world.put(a_waiting_job(JobKey(ME, waiting))))


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("lo",), ["logs", "local"]),
        (("local", ""), ["up", "down", "status"]),
        (("show", "l"), ["llama", "lora"]),
        (("logs", "-f", "ll"), ["llama"]),
        (("cancel", "llama", ""), ["lora"]),
        (("retry", ""), []),
        (("why", f"{ME}/lo"), [f"{ME}/lora"]),
        (("why", "--run", "somewhere", "l"), []),
        (("ls", "--queue", ""), ["default"]),
        (("ls", "--state", "fin"), ["finished"]),
        (("context", "use", ""), ["local", "cluster", "lab", "kube:local"]),
        (("show", "--context", "la"), ["lab"]),
        (("simulate", "-r", "tir"), ["tiresias"]),
        (("compare", "-r", "fifo,tir"), ["fifo,tiresias"]),
        (("spec", "explain", "retry."), ["retry.limit"]),
    ],
    ids=" ".join,
)
def test_bash_offers(shell: Shell, words: tuple[str, ...], offered: list[str]) -> None:
    assert shell.offers(*words) == offered


def test_all_commands_are_offered_by_their_names(shell: Shell) -> None:
    assert {"run", "submit", "completion", "compare"} <= set(shell.offers(""))
    assert "run" in shell.offers("no-such-command", "")


def test_without_a_world_nothing_is_offered(tmp_path: Path) -> None:
    shell = Shell(tmp_path, WEFT_CONTEXT="local", WEFT_LOCAL_SOCKET=str(tmp_path / "none.sock"))
    assert shell.offers("show", "") == []


def test_a_daemon_that_hangs_costs_a_moment(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "deaf.sock"))
        deaf.listen()
        path = str(tmp_path / "deaf.sock")
        shell = Shell(tmp_path, 0.1, WEFT_CONTEXT="local", WEFT_LOCAL_SOCKET=path)
        assert shell.offers("show", "") == []  # the client itself would wait for an hour
    assert PATIENCE_SECONDS <= 2.0, "people wait so long for nothing"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(weft: Weft, shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    called = weft("completion", shell)
    assert called.status == 0
    assert f"_WEFT_COMPLETE={shell}_complete" in called.out
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    assert weft("completion").out == called.out


def test_another_shell_is_refused(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    called = weft("completion", "tcsh")
    assert (called.status, called.out) == (2, "")
    assert "bash|zsh|fish" in called.err
    monkeypatch.delenv("SHELL", raising=False)
    assert "which shell?" in weft("completion").err
