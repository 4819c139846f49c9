"""The examples do what their text and the guide say: alone, resized, sharded, and started again."""

import ast
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.train.alone import run_alone
from tests.train.cradle import ROOT
from tests.train.driving import Driven, driven
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

EXAMPLES = ROOT / "examples"
GUIDE = ROOT / "docs" / "training.md"

CNN = ("--batch", "16", "--samples", "256", "--channels", "4")
LM = ("--batch", "8", "--width", "16", "--context", "16", "--layers", "2", "--heads", "2")
HUGGINGFACE = ("--batch", "8", "--width", "16", "--context", "16")

PACED = """
import os, runpy, sys, time
from pathlib import Path
import weft

backward, hurry = weft.backward, Path(os.environ["WEFT_TEST_OUT"]) / "hurry"

def paced(loss):
    backward(loss)
    if not hurry.exists():
        time.sleep(0.2)

weft.backward = paced
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class Unhurried:
    """An example whose steps take their time until the test has seen what it came for."""

    def __init__(self, job: Driven, epoch: int) -> None:
        self.job, self._epoch = job, epoch

    def resize(self, width: int) -> None:
        self.job.order(f"resize {width}")
        self._epoch = self.job.steady(width, after=self._epoch)["epoch"]

    def hurry(self) -> None:
        (self.job.folder / "hurry").touch()


@contextmanager
def unhurried(
    folder: Path, example: str, *options: str, agent: tuple[str, ...] = ()
) -> Iterator[Unhurried]:
    script = folder / "paced.py"
    script.write_text(PACED)
    width = int(agent[agent.index("-n") + 1])
    with driven(folder, str(script), str(EXAMPLES / example), *options, agent=agent) as job:
        yield Unhurried(job, job.steady(width)["epoch"])


def alone(folder: Path, script: Path, *options: str) -> str:
    """What a script prints without any agent."""
    done = run_alone(script, *options, folder=folder / "alone")
    assert done.code == 0, done.complaints
    return done.out


def loss_in(text: str) -> float:
    """The last loss that was printed."""
    found = re.findall(r"^loss ([0-9.]+)", text, re.MULTILINE)
    assert found, text
    return float(found[-1])


# ---------------------------------------------------------------------------------- the guide


def shown_diff() -> list[str]:
    """The lines of the diff that the guide shows."""
    found = re.search(r"```diff\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found, "the guide shows no diff"
    return found[1].splitlines()


def undone(elastic: list[str], diff: list[str]) -> list[str]:
    """The script before the diff; each of its lines must stand where it says."""
    plain: list[str] = []
    at = 0
    for line in diff:
        if line.startswith(("---", "+++")):
            continue
        if hunk := re.fullmatch(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@.*", line):
            start = int(hunk[1]) - 1
            plain += elastic[at:start]
            at = start
            continue
        sign, text = line[:1] or " ", line[1:]
        if sign in " +":
            assert elastic[at] == text, f"line {at + 1} of the example is not {text!r}"
            at += 1
        if sign in " -":
            plain.append(text)
    return plain + elastic[at:]


def test_the_diff_of_the_guide_turns_plain_pytorch_into_the_example(tmp_path: Path) -> None:
    elastic = (EXAMPLES / "cnn.py").read_text().splitlines()
    plain = undone(elastic, shown_diff())
    names = {
        node.id for node in ast.walk(ast.parse("\n".join(plain))) if isinstance(node, ast.Name)
    }
    assert "weft" not in names
    script = tmp_path / "plain_cnn.py"
    script.write_text("\n".join(plain) + "\n")
    assert loss_in(alone(tmp_path, script, "--steps", "60", *CNN)) < 1.3


# -------------------------------------------------------------------------------------- alone


@pytest.mark.parametrize(
    ("example", "options", "least"),
    [
        ("cnn.py", ("--steps", "60", *CNN), 1.3),
        ("lm.py", ("--steps", "80", "--micro", "3", *LM), 4.8),
        ("plain.py", ("--steps", "60"), 0.5),
        ("huggingface_trainer.py", ("--steps", "20", *HUGGINGFACE), 5.0),
    ],
)
def test_each_example_runs_alone_and_learns(
    tmp_path: Path, example: str, options: tuple[str, ...], least: float
) -> None:
    assert loss_in(alone(tmp_path, EXAMPLES / example, *options)) < least


# ------------------------------------------------------------------------------------ resized


@pytest.mark.parametrize(("example", "options"), [("cnn.py", CNN), ("lm.py", LM)])
def test_an_example_is_resized_while_it_trains(
    tmp_path: Path, example: str, options: tuple[str, ...]
) -> None:
    steps = ("--steps", "200")
    with unhurried(tmp_path, example, *steps, *options, agent=("-n", "1")) as run:
        run.resize(2)
        run.resize(1)
        run.hurry()
        assert run.job.wait(120) == 0, run.job.logs()
    undisturbed = loss_in(alone(tmp_path, EXAMPLES / example, *steps, *options))
    assert loss_in(log_of(run.job, 0)) == pytest.approx(undisturbed, abs=0.03)


def test_a_sharded_example_is_resized_by_whole_replicas(tmp_path: Path) -> None:
    agent = ("-n", "2", "--shard", "2")
    with unhurried(tmp_path, "lm.py", "--steps", "150", *LM, agent=agent) as run:
        run.resize(4)
        run.resize(2)
        run.hurry()
        assert run.job.wait(120) == 0, run.job.logs()
    undisturbed = loss_in(alone(tmp_path, EXAMPLES / "lm.py", "--steps", "150", *LM))
    assert loss_in(log_of(run.job, 0)) == pytest.approx(undisturbed, abs=0.03)


# ------------------------------------------------------------------------- a script without Weft


def logged(job: Driven, worker: int, text: str) -> str:
    """What follows a text in a worker's log, once it is there."""

    def found() -> re.Match[str] | None:
        ended = job.process.poll() is not None
        match = re.search(re.escape(text) + r"(.*)\n", log_of(job, worker))
        assert match or not ended, job.logs()
        return match

    match = until(found, repr(text), state=job.logs)
    assert match is not None
    return match[1]


def log_of(job: Driven, worker: int) -> str:
    path = job.folder / "run" / "logs" / f"worker-{worker}.log"
    return path.read_text() if path.exists() else ""


def test_a_plain_script_is_drained_and_resumes_at_another_width(tmp_path: Path) -> None:
    script, kept = str(EXAMPLES / "plain.py"), ("--checkpoint", str(tmp_path / "plain.pt"))
    endless = ("--steps", "100000000", "--every", "100000000")
    with driven(tmp_path / "first", script, *endless, *kept, agent=("-n", "2")) as job:
        for worker in (0, 1):
            assert logged(job, worker, f"rank {worker} of 2 begins with step") == " 0"
        job.signal(signal.SIGTERM)
        assert job.wait() == 143, job.logs()
        last = int(logged(job, 0, "rank 0 of 2 stops after step "))
    steps = ("--steps", str(last + 50))
    with driven(tmp_path / "second", script, *steps, *kept, agent=("-n", "1")) as job:
        assert job.wait() == 0, job.logs()
    assert f"rank 0 of 1 begins with step {last + 1}\n" in log_of(job, 0)


def test_a_plain_script_is_restarted_at_another_width(tmp_path: Path) -> None:
    script, kept = str(EXAMPLES / "plain.py"), ("--checkpoint", str(tmp_path / "plain.pt"))
    endless = ("--steps", "100000000", "--every", "100000000")
    with driven(tmp_path, script, *endless, *kept, agent=("-n", "1")) as job:
        logged(job, 0, "rank 0 of 1 begins with step 0")
        job.order("resize 2")
        begun = int(logged(job, 1, "rank 0 of 2 begins with step "))
        assert begun == int(logged(job, 0, "rank 0 of 1 stops after step ")) + 1
        logged(job, 2, f"rank 1 of 2 begins with step {begun}")
        job.order("drain")
        assert job.wait() == 143, job.logs()
