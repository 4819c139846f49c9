"""One id for all that a job writes into a tracker, whoever of its workers writes and how often.

The worker that logs may be lost, and the job may be started again from its checkpoint; a tracker
should show one run all the same. So the id lies beside the checkpoints, where the next start finds
it; without a folder for those nothing is gone on with, and each start has an id of its own.

Trackers differ in what they take. W&B makes a run of that id, or goes on with it. MLflow knows only
ids that it has given itself, and refuses all others; but it marks every new run with the tags that
it is told, and can be asked for them. `docs/training.md` has the lines for both and TensorBoard.
"""

import hashlib
import json
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

FILE: Final = "run-id"
TAG: Final = "weft_run"
SOUND: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
ID_BYTES: Final = 8


def run_id(checkpoints: Path | str | None) -> str:
    """The one that was kept there, else a new one, which is kept."""
    if isinstance(checkpoints, str):
        return kept(checkpoints)
    made = secrets.token_hex(ID_BYTES)
    if checkpoints is not None and not kept(checkpoints):
        with suppress(OSError):  # a folder that cannot be written to is told of by the vault
            _keep(checkpoints, made)
    return kept(checkpoints) or made


def _keep(checkpoints: Path, made: str) -> None:
    """Whole or not at all, and never in place of another's."""
    checkpoints.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = checkpoints / f".{FILE}-{made}"
    unfinished.write_text(made)
    try:
        os.link(unfinished, checkpoints / FILE)
    finally:
        unfinished.unlink()


def kept(checkpoints: Path | str | None) -> str:
    """The one that was kept there; nothing if there is none that could be one.

    An object store needs no file for it: all who have the address come to the same id.
    """
    if checkpoints is None:
        return ""
    if isinstance(checkpoints, str):
        return hashlib.sha256(checkpoints.encode()).hexdigest()[: 2 * ID_BYTES]
    try:
        text = (checkpoints / FILE).read_text()
    except (OSError, ValueError):
        return ""
    return text if SOUND.fullmatch(text) else ""


def variables(run: str, given: Mapping[str, str], *, first: bool) -> dict[str, str]:
    """What a worker is told of it; trackers themselves are told on the first one only.

    Ranks of a plain script may all log, each into a run of its own. A script that knows Weft asks
    which worker logs, so there all pass it on to their trackers (`weft.train.run`).
    """
    if not run:
        return {}
    return {"WEFT_RUN_ID": run, **(for_trackers(run, given) if first else {})}


def for_trackers(run: str, given: Mapping[str, str]) -> dict[str, str]:
    """Each tracker's own variables, except where somebody has chosen otherwise."""
    told: dict[str, str] = {}
    if "WANDB_RUN_ID" not in given and "WANDB_RESUME" not in given:
        told |= {"WANDB_RUN_ID": run, "WANDB_RESUME": "allow"}
    if "MLFLOW_RUN_CONTEXT" not in given:
        told["MLFLOW_RUN_CONTEXT"] = json.dumps({TAG: run})
    return told
