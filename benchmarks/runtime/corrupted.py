"""Damaged and hostile checkpoints, made by the kinds of damage that the tests know.

`python -m benchmarks.runtime.corrupted SEEDS` prints how many were tried and how many were refused
in favour of the one before. A process of its own, because the tests watch the interpreter by an
audit hook, and such a hook can never be taken out again.
"""

import json
import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.agent.checkpoint.hostile import CHANGES, FILES
from tests.agent.checkpoint.test_corruption import (
    INCARNATION,
    KINDS,
    NEWEST,
    copy_of,
    looked_at,
    reseal,
)
from tests.agent.checkpoint.vaults import a_vault, save
from weft.agent.checkpoint import manifest

Damage = Callable[[Path], object]
THE_ONE_BEFORE = (20, 1)


def damages(seeds: int) -> Iterator[Damage]:
    """Each kind with so many seeds, then every hostile manifest."""
    for kind in KINDS:
        for seed in range(seeds):
            yield lambda root, kind=kind, seed=seed: kind(root, random.Random(seed))  # type: ignore[misc]
    for change in CHANGES.values():
        yield lambda root, change=change: reseal(root / NEWEST, change)  # type: ignore[misc]
    for text in FILES.values():
        yield partial(_replace_manifest, text=text)


def measure(folder: Path, seeds: int) -> tuple[int, int]:
    """How many were tried, and how many were refused."""
    save(a_vault(folder, 1), 10)
    vault = a_vault(folder, INCARNATION)
    for step in (20, 30):
        save(vault, step)
    tried = refused = 0
    for damage in damages(seeds):
        tried += 1
        with copy_of(vault.root, folder / "copy") as root:
            damage(root)
            refused += _is_refused(root)
    return tried, refused


def _is_refused(root: Path) -> bool:
    try:
        return looked_at(root) == THE_ONE_BEFORE
    except AssertionError:
        return False


def _replace_manifest(root: Path, text: bytes) -> None:
    (root / NEWEST / manifest.NAME).write_bytes(text)


if __name__ == "__main__":
    with TemporaryDirectory(prefix="weft-bench-") as place:
        print(json.dumps(measure(Path(place), int(sys.argv[1]))))
