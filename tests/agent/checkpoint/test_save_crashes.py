"""A save is killed at each labelled point: the old checkpoint or the new one is found, whole."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.checkpoint.vaults import a_vault, contents, save, write_slots
from weft.agent.checkpoint.saving import POINTS
from weft.agent.checkpoint.vault import Vault

VISIBLE = {"save-renamed", "save-durable"}
SAVE = """
import sys
from pathlib import Path
from weft.agent.checkpoint.vault import Vault
root, job, incarnation, *slots = sys.argv[1:]
Vault(Path(root), job, int(incarnation), threads=1).write(20, 160, [Path(slot) for slot in slots])
"""


def killed_save(vault: Vault, slots: list[Path], label: str) -> None:
    command = [sys.executable, "-c", SAVE, str(vault.root), vault.job, str(vault.incarnation)]
    ended = subprocess.run(
        [*command, *map(str, slots)],
        env={**os.environ, "WEFT_CRASH": label, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        timeout=60,
    )
    assert ended.returncode == -signal.SIGKILL


def test_there_are_nine_points() -> None:
    assert len(set(POINTS)) == 9


@pytest.mark.parametrize("incarnation", [1, 2], ids=["same", "next"])
@pytest.mark.parametrize("label", POINTS)
def test_death_at_any_point_leaves_the_old_one_or_the_new_one(
    tmp_path: Path, label: str, incarnation: int
) -> None:
    vault = a_vault(tmp_path)
    before = contents(save(vault, 10))
    slots = write_slots(tmp_path / "slots", 20)
    killed_save(vault, slots, label)

    after = a_vault(tmp_path, incarnation)
    found = after.newest()
    assert found.refused == ()
    assert found.checkpoint is not None
    assert found.checkpoint.step == (20 if label in VISIBLE else 10)
    assert contents(vault.root / "step-10.inc-1") == before

    after.retain(0.0)
    expected = {"fence.json", "lock", "step-10.inc-1", *(["step-20.inc-1"] * (label in VISIBLE))}
    assert {path.name for path in after.root.iterdir()} == expected
    if label not in VISIBLE:
        path = after.write(20, 160, slots)
        assert path is not None
        assert sorted(contents(path)) == ["manifest.json", "shard-0-of-2.bin", "shard-1-of-2.bin"]
    newest = after.newest()
    assert newest.checkpoint is not None
    assert (newest.checkpoint.step, newest.refused) == (20, ())
