"""`weft launch` with real training: as under torchrun, and what only Weft scripts can do."""

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from functools import partial
from pathlib import Path

import pytest

from tests.launch import launching
from tests.launch.launching import ROOT, environment
from tests.train.cradle import Forked, begin
from tests.train.driving import JOBS
from tests.train.lines import applied, check_each_once, read_lines
from tests.waiting import HANG_SECONDS
from weft.agent.messages import Resize
from weft.agent.wire.orders import ask

pytestmark = [pytest.mark.slow, pytest.mark.timeout(160)]


def forked(words: list[str], folder: Path, env: dict[str, str]) -> Forked:
    return begin(words, agent=True, folder=folder, env=env)


Launch = partial(launching.Launch, begin=forked)
launched = partial(launching.launched, begin=forked)
PRINTS = """
import json, os, pathlib
pathlib.Path(os.environ["OUT"], os.environ["RANK"]).write_text(json.dumps(dict(os.environ)))
"""
OF_A_RUN = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE"}
OF_TORCHRUNS_OWN = {
    "TORCHELASTIC_SIGNALS_TO_HANDLE",  # those that torchrun itself looks out for
    "TORCHELASTIC_USE_AGENT_STORE",  # here rank 0 opens the store, and not the launcher
}


def test_a_script_finds_what_torchrun_would_have_told_it(tmp_path: Path) -> None:
    script = tmp_path / "prints.py"
    script.write_text(PRINTS)
    words = ("--standalone", "--nproc-per-node", "2")
    folders = [tmp_path / "theirs", tmp_path / "ours"]
    for folder in folders:
        folder.mkdir()
    torchrun = [sys.executable, "-m", "torch.distributed.run", *words, str(script)]
    variables = environment(OUT=str(folders[0]))
    subprocess.run(torchrun, env=variables, check=True, capture_output=True, timeout=120)
    assert launched(tmp_path, *words, script, OUT=str(folders[1])).status == 0
    for rank in ("0", "1"):
        theirs, ours = (json.loads((folder / rank).read_text()) for folder in folders)
        told = {name for name in theirs if name not in variables} - OF_TORCHRUNS_OWN
        assert len(told) > 12
        assert OF_A_RUN < told <= ours.keys()
        for name in told - OF_A_RUN:
            assert ours[name] == theirs[name], name
        assert ours["TORCHELASTIC_USE_AGENT_STORE"] == "False"


def test_a_plain_script_is_stopped_and_goes_on_at_another_width(tmp_path: Path) -> None:
    plain, kept = ROOT / "examples" / "plain.py", tmp_path / "kept.pt"
    job = Launch(tmp_path, "-n", "2", plain, "--steps", "1000000", "--checkpoint", kept)
    job.until(kept)
    job.signal(signal.SIGTERM)
    ended = job.end()
    assert ended.status == 143, ended
    assert ended.out.count("stops after step") == 2
    ended = launched(tmp_path, "--threads", "1", plain, "--steps", "10", "--checkpoint", kept)
    assert ended.status == 0, ended
    assert "rank 0 of 1 begins with step" in ended.out


def test_a_weft_script_goes_on_where_ctrl_c_has_stopped_it(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    words = ("--checkpoints", kept, JOBS / "mlp.py", "--total", "60")
    job = Launch(*(tmp_path, "-n", "2", *words, "--pause", "0.1"), WEFT_TEST_OUT=str(tmp_path))
    job.until(tmp_path / "steps-1.jsonl")
    while max(map(len, applied(read_lines(tmp_path)).values()), default=0) < 5:
        assert job.process.poll() is None, job.end()
    job.signal(signal.SIGINT)
    ended = job.end()
    assert ended.status == 130, ended
    assert f"are kept in {kept}; the same command goes on" in ended.err
    ended = launched(tmp_path, "--threads", "1", *words, WEFT_TEST_OUT=str(tmp_path))
    assert ended.status == 0, ended
    check_each_once(read_lines(tmp_path), total=60)
    assert not list(tmp_path.glob("weft-*")), "a folder is left"
    assert "step-59.inc-2" in os.listdir(kept)


def test_only_the_first_worker_of_a_weft_script_is_heard_and_the_one_that_fails(
    tmp_path: Path,
) -> None:
    script = tmp_path / "elastic.py"
    script.write_text(
        (ROOT / "examples" / "cnn.py").read_text()
        + "\nimport os\nprint('I am', os.environ['RANK'], os.environ['LOCAL_RANK'])\n"
        "if os.environ['RANK'] == '1':\n    raise ValueError('of rank 1')\n"
    )
    ended = launched(tmp_path, "-n", "2", script, "--steps", "3", "--samples", "64")
    assert ended.status == 1, ended
    assert "I am 1" not in ended.out
    said = [line for line in ended.err.splitlines() if line.startswith("[1] ")]
    assert said[-1] == "[1] ValueError: of rank 1"


class Terminal:
    """A `weft launch` at a terminal of its own."""

    def __init__(self, folder: Path, *words: str | Path, **more: str) -> None:
        self.handle, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, 100))
        self.process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *launching.COMMAND, *map(str, words)],
            cwd=folder,
            env=environment(TMPDIR=str(folder), **more),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        self.text = ""

    def until(self, pattern: str) -> re.Match[str]:
        """It has shown this, since what was waited for before."""
        while True:
            found = re.search(pattern, self.text)
            if found:
                self.text = self.text[found.end() :]
                return found
            self.text += os.read(self.handle, 4096).decode()

    def press(self, keys: bytes) -> None:
        os.write(self.handle, keys)

    def end(self) -> int:
        while True:
            try:
                block = os.read(self.handle, 4096)
            except OSError:  # the other side has been closed
                break
            self.text += block.decode()
        os.close(self.handle)
        return self.process.wait(HANG_SECONDS)


def test_at_a_terminal_there_is_a_line_that_is_redrawn_and_ctrl_c(tmp_path: Path) -> None:
    words = ("-n", "2", JOBS / "mlp.py", "--total", "5000", "--pause", "0.02")
    terminal = Terminal(tmp_path, *words, WEFT_TEST_OUT=str(tmp_path))
    folder = terminal.until(r"weft-agent tell (\S+) resize N")[1]
    terminal.until(r"\r\x1b\[Kstep \d+/5000  loss [\d.]+  [\d,.]+ samples/s  2 workers  \S+ left\r")
    assert asyncio.run(ask(Path(folder), Resize(1))).ok
    terminal.until("weft: 1 workers are wanted")
    terminal.until(r"\r\x1b\[Kstep \d+/5000  [^\r]*  1 worker  \S+ left\r")
    terminal.press(b"\x03")
    terminal.until("weft: stopping; once more ends it at once")
    assert terminal.end() == 130
    assert "--checkpoints DIR would keep its state" in terminal.text
    assert "Traceback" not in terminal.text


def test_where_nobody_sees_it_redrawn_there_is_no_such_line(tmp_path: Path) -> None:
    words = ("-n", "2", JOBS / "mlp.py", "--total", "30")
    ended = launched(tmp_path, *words, WEFT_TEST_OUT=str(tmp_path))
    assert (ended.status, ended.out) == (0, "")
    (line,) = ended.err.splitlines()
    assert line.startswith("weft: to resize it: weft-agent tell ")
