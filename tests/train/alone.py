"""A job of `tests/train/jobs` without any agent: what an undisturbed run comes to."""

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.train.driving import JOBS, ROOT
from tests.train.lines import Line, finals, read_lines


@functools.cache
def undisturbed(script: str, *options: str) -> Line:
    """The last line of a run in one process, as plain PyTorch."""
    with tempfile.TemporaryDirectory() as folder:
        variables = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "WEFT_TEST_OUT": folder}
        subprocess.run(
            [sys.executable, str(JOBS / script), *options],
            env={**os.environ, **variables, "OMP_NUM_THREADS": "1"},
            check=True,
            timeout=120,
        )
        (last,) = finals(read_lines(Path(folder)))
        return last
