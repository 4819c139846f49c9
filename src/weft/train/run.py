"""The run that a script belongs to: one id over changes of width, losses and restarts."""

import functools
import os
import secrets
from pathlib import Path
from typing import Final

from weft.agent.workers.tracking import ID_BYTES, for_trackers

RUNS: Final = "runs"  # where TensorBoard's own writer puts them


@functools.cache
def run_id() -> str:
    """The job's; outside of any world, one of this process."""
    return os.environ.get("WEFT_RUN_ID") or secrets.token_hex(ID_BYTES)


def log_dir(root: str | Path = RUNS) -> str:
    """A folder below `root` for what this run logs, the same one on every worker."""
    return str(Path(root) / run_id())


def tell_trackers() -> None:
    """Any worker may come to be the first, so all are ready to log into the job's run."""
    run = os.environ.get("WEFT_RUN_ID")
    if run:
        os.environ.update(for_trackers(run, os.environ))
