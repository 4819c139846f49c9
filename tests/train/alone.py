"""Programs without any agent: what they print, and what an undisturbed run comes to."""

import functools
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.train.cradle import ROOT, begin
from tests.train.driving import JOBS
from tests.train.lines import Line, finals, read_lines, samples

MOST_SECONDS = 120.0


@dataclass(frozen=True)
class Done:
    """A program that has ended."""

    code: int
    out: str
    complaints: str


def run_alone(
    script: Path,
    *options: str,
    folder: Path,
    most_seconds: float = MOST_SECONDS,
    **variables: str,
) -> Done:
    """A script in a folder of its own, with nothing of Weft in its environment."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    env |= {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1"}
    env |= {"WEFT_TEST_OUT": str(folder), **variables}
    folder.mkdir(exist_ok=True)
    process = begin([str(script), *options], agent=False, folder=folder, env=env)
    process.stdin.close()
    with process.stdout as out, process.stderr as complaints, ThreadPoolExecutor() as reading:
        said = [reading.submit(stream.read) for stream in (out, complaints)]
        return Done(process.wait(most_seconds), *(text.result() for text in said))


@functools.cache
def undisturbed(script: str, *options: str) -> Line:
    """The last line of a run in one process, as plain PyTorch."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "hurry").touch()
        done = run_alone(JOBS / script, *options, folder=Path(folder))
        assert done.code == 0, done.complaints
        (last,) = finals(read_lines(Path(folder)))
        return last


@functools.cache
def undisturbed_samples(script: str, *options: str) -> dict[int, list[int]]:
    """Of each step of a run in one process, as plain PyTorch."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "hurry").touch()
        done = run_alone(JOBS / script, *options, folder=Path(folder))
        assert done.code == 0, done.complaints
        taken = samples(read_lines(Path(folder)))
        return {step: sorted(some) for step, some in taken.items()}
