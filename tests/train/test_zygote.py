"""A worker that was forked finds itself as if it had been started by itself."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.train.cradle import ROOT
from tests.train.driving import JOBS, driven, leftovers
from tests.train.lines import applied, read_lines
from tests.waiting import HANG_SECONDS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

# The import makes it a script that is forked; not doing it makes the plain start a cheap one.
SELF = """
import atexit, os, sys, threading, time
def never():
    import torch
print({
    "argv": sys.argv, "file": __file__, "name": __name__, "main": sys.modules["__main__"].__name__,
    "path": sys.path[0], "folder": os.getcwd(), "leads": os.getsid(0) == os.getpid(),
    "descriptors": len(os.listdir("/proc/self/fd")),
    "input": os.readlink("/proc/self/fd/0"), "threads": len(os.listdir("/proc/self/task")),
    "affinity": sorted(os.sched_getaffinity(0)), "unbuffered": os.environ["PYTHONUNBUFFERED"],
    "variables": {n: os.environ[n] for n in ("RANK", "WEFT_WORKER", "OMP_NUM_THREADS", "MINE")},
})
atexit.register(lambda: print("at exit"))
def late():
    time.sleep(0.2)
    print("a thread ends after its script")
threading.Thread(target=late).start()
"""
ENDS = {
    "": 0,
    "sys.exit(3)": 3,
    "sys.exit('words')": 1,
    "raise ValueError('broken')": 1,
    "os._exit(5)": 5,
    "os.kill(os.getpid(), 15)": -15,
    "raise KeyboardInterrupt": -2,
}


def told_by(folder: Path, script: Path, **variables: str) -> str:
    """What a script prints under an agent."""
    with driven(
        folder, str(script), "--lr", "3", agent=("-n", "1"), MINE="yes", **variables
    ) as job:
        job.wait()
    return (folder / "run" / "logs" / "worker-0.log").read_text()


def test_forked_and_plainly_started_workers_see_the_same(tmp_path: Path) -> None:
    script = tmp_path / "self.py"
    script.write_text(SELF)
    forked = told_by(tmp_path / "forked", script)
    plain = told_by(tmp_path / "plain", script, WEFT_ZYGOTE="0")
    first, *rest = forked.splitlines()
    told: dict[str, Any] = ast.literal_eval(first)
    assert rest == ["a thread ends after its script", "at exit"]
    assert told["threads"] == 1
    assert told["leads"]
    assert forked.replace(str(tmp_path / "forked"), "") == plain.replace(
        str(tmp_path / "plain"), ""
    )


@pytest.mark.parametrize(("end", "code"), ENDS.items(), ids=ENDS.values())
def test_it_ends_with_the_scripts_own_code(tmp_path: Path, end: str, code: int) -> None:
    script = tmp_path / "end.py"
    script.write_text(
        f"import os, sys\ndef never():\n    import torch\nprint('here', flush=True)\n{end}\n"
    )
    with driven(tmp_path, str(script), agent=("-n", "1")) as job:
        job.wait()
    assert [event["code"] for event in job.named("exited")] == [code]
    said = (tmp_path / "run" / "logs" / "worker-0.log").read_text()
    assert said.startswith("here\n")
    assert ("words" in end) == ("words" in said)
    assert ("ValueError: broken" in said) == ("broken" in end)
    assert "runpy" not in said, "a traceback begins in the script"


def test_two_workers_draw_different_numbers(tmp_path: Path) -> None:
    script = tmp_path / "chance.py"
    script.write_text("import torch, numpy, random\nprint(numpy.random.rand(), random.random())\n")
    with driven(tmp_path, str(script), agent=("-n", "2")) as job:
        assert job.wait() == 0, job.logs()
    drawn = [(tmp_path / "run" / "logs" / f"worker-{n}.log").read_text().split() for n in (0, 1)]
    assert len({number for worker in drawn for number in worker}) == 4


def test_an_agent_starts_a_zygote_of_its_own(tmp_path: Path) -> None:
    """As it does for everybody: no cradle, real imports, in a process that the agent ends."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    command = ["-m", "weft.agent", "run", "--json", "-n", "2", "--folder", str(tmp_path / "run")]
    agent = subprocess.Popen(
        [sys.executable, *command, str(JOBS / "mlp.py"), "--total", "5"],
        cwd=tmp_path,
        env={**variables, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "WEFT_TEST_OUT": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said, _ = agent.communicate(timeout=HANG_SECONDS)
    assert agent.returncode == 0, said
    assert applied(read_lines(tmp_path)) == {"0": list(range(5)), "1": list(range(5))}
    commands = [line["command"] for line in read_lines(tmp_path) if "command" in line]
    assert len(commands) == 2
    assert all("weft.train.zygote" in one for one in commands), "they were not forked"
    assert (tmp_path / "run" / "logs" / "zygote.log").read_text() == ""
    assert not leftovers(tmp_path)
