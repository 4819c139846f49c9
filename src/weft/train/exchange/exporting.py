"""From a checkpoint of Weft to a folder that others can read."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from weft.agent.checkpoint.catalogue import Listed
from weft.agent.checkpoint.source import open_source
from weft.model.errors import SpecError
from weft.train.exchange import safetensors_files
from weft.train.exchange.foreign import Progress
from weft.train.exchange.notes import Notes
from weft.train.exchange.whole import Wholes

FORMATS: Final = ("safetensors", "dcp")


def export(found: Listed, target: Path, form: str, tell: Progress) -> int:
    """All tensors, each put together and compared with its digests; returns their bytes.

    The folder gets its name when everything is in it.
    """
    assert found.manifest is not None
    head = found.manifest.head
    with _growing(target) as folder, open_source(found.path) as source:
        wholes = Wholes(source)
        if form == "dcp":
            from weft.train.exchange import dcp  # a second and a half that others need not wait for

            names = dcp.write(wholes, source.facts, folder, tell)
        else:
            names = safetensors_files.write(wholes, folder, tell)
        Notes(head.job, head.step, head.cursor, head.torch, names, source.facts).write(folder)
        return sum(map(wholes.bytes, wholes.names))


def check_free(target: Path) -> None:
    """Nothing is written over."""
    if target.exists() and not target.is_dir():
        raise SpecError(f"{target} is a file", hint="name a new folder")
    if target.exists() and any(target.iterdir()):
        raise SpecError(f"{target} is not empty", hint="name a new folder")


@contextmanager
def _growing(target: Path) -> Iterator[Path]:
    """A folder beside it, which takes its place at the end and otherwise disappears."""
    check_free(target)
    folder = target.resolve().with_name(f".{target.name}.part-{os.getpid()}")
    folder.mkdir(parents=True)
    try:
        yield folder
        os.rename(folder, target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
