"""One measurement in a process of its own, on one core: what ran before it cannot colour it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def apart(
    module: str,
    given: Mapping[str, Any],
    *,
    at_most_seconds: float,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any] | str:
    """What `python -m module` prints for these, or the last words of one that failed.

    The module takes one argument and prints one line, both JSON.
    """
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, json.dumps(given)],
            env={**os.environ, **ONE_CORE, **path, **(environment or {})},
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            timeout=at_most_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"not over after {at_most_seconds:.0f} s"
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    found: dict[str, Any] = json.loads(done.stdout)
    return found
