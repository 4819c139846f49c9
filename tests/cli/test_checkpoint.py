"""`weft checkpoint ls` and `show`: what a folder holds, and what is wrong with it."""

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.agent.checkpoint.vaults import JOB, a_vault, save
from tests.cli.called import Weft, expect_json_shape, expect_snapshot, trimmed

WRITTEN = 1_767_268_800.0  # noon of the first of January 2026
LATER = datetime(2026, 1, 1, 15, 12, tzinfo=UTC)


@pytest.fixture
def vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three checkpoints: one that is damaged, one sound, and one that was never finished."""
    for module in ("checkpoint.ls", "checkpoint.show"):
        monkeypatch.setattr(f"weft.cli.{module}.now", lambda: LATER)
    for step in (10, 20):
        save(a_vault(tmp_path, seconds=WRITTEN), step)
    save(a_vault(tmp_path, 2, seconds=WRITTEN), 30)
    root = tmp_path / "vault"
    os.truncate(root / "step-30.inc-2" / "shard-1-of-2.bin", 1)
    shutil.copytree(root / "step-20.inc-1", root / "step-40.tmp-2")
    return root


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)


def test_ls(weft: Weft, vault: Path) -> None:
    called = weft("checkpoint", "ls", vault)
    assert called.status == 0
    expect_snapshot("checkpoint-ls.txt", trimmed(called.out))


def test_ls_in_json(weft: Weft, vault: Path) -> None:
    found = weft("checkpoint", "ls", vault, "-o", "json").json
    assert found["schema"] == "weft-checkpoints/1"
    states = {one["step"]: one["state"] for one in found["checkpoints"]}
    assert states == {40: "unfinished", 30: "damaged", 20: "whole", 10: "whole"}
    sound = found["checkpoints"][2]
    assert (sound["incarnation"], sound["shards"], sound["tensors"]) == (1, 2, 3)
    assert sound["bytes"] == sum(
        path.stat().st_size for path in (vault / "step-20.inc-1").glob("shard-*")
    )
    expect_json_shape("checkpoint-ls.json", {**found, "checkpoints": [sound]})


def test_a_flipped_bit_is_found_only_where_bytes_are_read(weft: Weft, vault: Path) -> None:
    flip(vault / "step-20.inc-1" / "shard-0-of-2.bin")
    assert weft("checkpoint", "show", vault, "20").status == 0
    called = weft("checkpoint", "show", vault, "20", "--verify")
    assert called.status == 1
    assert "chunk 0 differs" in called.out
    found = weft("checkpoint", "ls", vault, "--verify", "-o", "json").json["checkpoints"]
    assert [one["state"] for one in found] == ["unfinished", "damaged", "damaged", "verified"]


def test_show(weft: Weft, vault: Path) -> None:
    called = weft("checkpoint", "show", vault)
    assert called.status == 0
    text = trimmed(called.out.replace(str(vault), "FOLDER"))
    expect_snapshot("checkpoint-show.txt", text)


def test_show_in_json(weft: Weft, vault: Path) -> None:
    found = weft("checkpoint", "show", vault, "10", "-o", "json").json
    assert (found["step"], found["head"]["job"], found["state"]) == (10, JOB, "whole")
    weight = next(one for one in found["tensors"] if one["name"] == "model/weight")
    assert weight == {
        "name": "model/weight",
        "dtype": "float32",
        "shape": [7, 5],
        "bytes": 140,
        "parts": 2,
    }
    expect_json_shape("checkpoint-show.json", found)


def test_the_folder_of_a_job_is_as_good_as_the_vault_in_it(weft: Weft, vault: Path) -> None:
    vault.rename(vault.parent / "weft")
    assert weft("checkpoint", "show", vault.parent).status == 0


def test_a_manifest_that_is_gone_leaves_nothing_to_show(weft: Weft, vault: Path) -> None:
    (vault / "step-20.inc-1" / "manifest.json").unlink()
    called = weft("checkpoint", "show", vault, "20", "-o", "json")
    assert (called.status, called.json["state"], called.json["tensors"]) == (1, "damaged", [])


def test_what_is_no_vault_is_refused(weft: Weft, vault: Path) -> None:
    empty = vault.parent / "empty"
    empty.mkdir()
    for folder, words in (
        (vault.parent / "nowhere", "does not exist"),
        (vault / "fence.json", "is a file"),
        (empty, "holds no checkpoints of Weft"),
        ("s3://bucket/prefix", "is in an object store"),
    ):
        called = weft("checkpoint", "ls", folder)
        assert called.status == 2
        assert words in called.err
        assert "hint: " in called.err


def test_a_step_that_is_not_there_is_refused_with_those_that_are(weft: Weft, vault: Path) -> None:
    called = weft("checkpoint", "show", vault, "15")
    assert called.status == 2
    assert "no checkpoint of step 15" in called.err
    assert "it has: 30, 20, 10" in called.err


def test_looking_changes_nothing(weft: Weft, vault: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in vault.rglob("*")}
    weft("checkpoint", "ls", vault, "--verify")
    weft("checkpoint", "show", vault)
    assert {path: path.stat().st_mtime_ns for path in vault.rglob("*")} == before
