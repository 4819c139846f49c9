"""More than a thousand damaged or hostile checkpoints: all are refused, the one before is found.

Nothing is executed meanwhile: the interpreter's own audit events show every import, every piece of
code that is run, every process, connection and file that is opened.
"""

import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.agent.checkpoint.hostile import CHANGES, FILES
from tests.agent.checkpoint.vaults import a_vault, save
from weft.agent.checkpoint import manifest
from weft.agent.checkpoint.document import seal
from weft.agent.checkpoint.vault import Newest

SEEDS = 130
INCARNATION = 2
NEWEST, BEFORE = "step-30.inc-2", "step-20.inc-2"
CHANGING = {"os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "shutil.rmtree"}
RUNNING = {"import", "exec", "compile", "os.system", "os.exec", "os.posix_spawn", "os.fork"}
REACHING = {"subprocess.Popen", "ctypes.dlopen", "pickle.find_class", "marshal.loads"}
FORBIDDEN = CHANGING | RUNNING | REACHING
_seen: list[str] | None = None


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _seen is None:
        return
    if event in FORBIDDEN or event.startswith("socket."):
        _seen.append(f"{event} {arguments!r:.200}")
    elif event == "open" and isinstance(arguments[0], str) and "/" in arguments[0]:
        _seen.append(f"open {arguments[0]}")


sys.addaudithook(_audit)


@contextmanager
def watched(root: Path) -> Iterator[None]:
    """Nothing may be run or changed, and nothing but the root be opened by its path."""
    global _seen  # noqa: PLW0603 - an audit hook can never be removed
    _seen = []
    try:
        yield
        assert [event for event in _seen if event != f"open {root}"] == []
    finally:
        _seen = None


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault with three checkpoints, of two incarnations."""
    folder = tmp_path_factory.mktemp("sound")
    save(a_vault(folder, 1), 10)
    vault = a_vault(folder, INCARNATION)
    save(vault, 20)
    save(vault, 30)
    assert looked_at(vault.root) == (30, 0)
    return vault.root


def newest(root: Path) -> Newest:
    vault = a_vault(root.parent, INCARNATION)
    with watched(root):
        return vault.newest()


def looked_at(root: Path) -> tuple[int, int]:
    """The step that is found, and how many were refused."""
    found = newest(root)
    assert all(refused.reason for refused in found.refused)
    assert found.checkpoint is not None
    return found.checkpoint.step, len(found.refused)


@contextmanager
def copy_of(sound: Path, folder: Path) -> Iterator[Path]:
    root = folder / "vault"
    shutil.copytree(sound, root)
    yield root
    assert not (folder / "canary").exists()
    assert not Path("canary").exists()
    shutil.rmtree(root)


def reseal(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest and give it a correct digest again."""
    path = folder / manifest.NAME
    body = json.loads(path.read_bytes())
    del body["digest"]
    change(body)
    path.write_bytes(seal(body))


# ------------------------------------------------------------------------------ kinds of damage


def a_file(root: Path, draw: random.Random) -> Path:
    return draw.choice(sorted((root / NEWEST).iterdir()))


def flipped(root: Path, draw: random.Random) -> None:
    path = a_file(root, draw)
    data = bytearray(path.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def truncated(root: Path, draw: random.Random) -> None:
    path = a_file(root, draw)
    os.truncate(path, draw.randrange(path.stat().st_size))


def torn(root: Path, draw: random.Random) -> None:
    """The length is right, but the end never reached the disk."""
    path = a_file(root, draw)
    data = path.read_bytes()
    kept = draw.randrange(len(data.rstrip(b"\x00")))
    path.write_bytes(data[:kept] + bytes(len(data) - kept))


def grown(root: Path, draw: random.Random) -> None:
    with a_file(root, draw).open("ab") as file:
        file.write(draw.randbytes(draw.randrange(1, 200)))


def garbled(root: Path, draw: random.Random) -> None:
    """A run of bytes from somewhere else."""
    path = a_file(root, draw)
    data = bytearray(path.read_bytes())
    start = draw.randrange(len(data))
    length = draw.randrange(1, 64)
    data[start : start + length] = draw.randbytes(len(data[start : start + length]))
    if bytes(data) == path.read_bytes():
        data[start] ^= 1
    path.write_bytes(data)


def swapped(root: Path, draw: random.Random) -> None:
    """Files of this checkpoint for each other, or for those of another one."""
    one = a_file(root, draw)
    others = [path for path in (root / NEWEST).iterdir() if path != one]
    other = draw.choice([root / BEFORE / one.name, *sorted(others)])
    mine, theirs = one.read_bytes(), other.read_bytes()
    one.write_bytes(theirs)
    if other.parent == one.parent:
        other.write_bytes(mine)


def lost(root: Path, draw: random.Random) -> None:
    a_file(root, draw).unlink()


def renamed(root: Path, draw: random.Random) -> None:
    """Under the name of another step, or of another incarnation."""
    step, incarnation = draw.choice([(30, 1), (30, 3), (draw.randrange(31, 99), 2)])
    (root / NEWEST).rename(root / f"step-{step}.inc-{incarnation}")


def fenced(root: Path, draw: random.Random) -> None:
    """Whole and sealed, but of an incarnation that has never been here."""
    incarnation = draw.randrange(3, 1000)
    reseal(root / NEWEST, lambda body: body["head"].update(incarnation=incarnation))
    (root / NEWEST).rename(root / f"step-30.inc-{incarnation}")


def linked(root: Path, draw: random.Random) -> None:
    """The right bytes, but behind a link; or no file at all."""
    path = draw.choice([root / NEWEST, *sorted((root / NEWEST).iterdir())])
    elsewhere = root.parent / "elsewhere"
    shutil.rmtree(elsewhere, ignore_errors=True)
    elsewhere.mkdir()
    kind = draw.choice(["link", "relative link", "fifo", "folder", "loop"])
    path.rename(elsewhere / path.name)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder" and path.name != NEWEST:
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "relative link":
        path.symlink_to(os.path.relpath(elsewhere / path.name, path.parent))
    else:
        path.symlink_to(elsewhere / path.name)


def hostile(root: Path, draw: random.Random) -> None:
    """Two things changed at once, and sealed again."""
    changes = draw.sample(sorted(CHANGES), 2)

    def change(body: dict[str, Any]) -> None:
        for name in changes:
            try:
                CHANGES[name](body)
            except (LookupError, TypeError, AttributeError):
                continue

    reseal(root / NEWEST, change)


KINDS = (
    flipped,
    truncated,
    torn,
    grown,
    garbled,
    swapped,
    lost,
    renamed,
    fenced,
    linked,
    hostile,
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_damage_is_refused_and_the_one_before_is_found(
    kind: Callable[[Path, random.Random], None], sound: Path, tmp_path: Path
) -> None:
    for seed in range(SEEDS):
        with copy_of(sound, tmp_path) as root:
            kind(root, random.Random(seed))
            assert looked_at(root) == (20, 1), f"{kind.__name__}, seed {seed}"


def test_more_than_a_thousand_are_tried() -> None:
    assert SEEDS * len(KINDS) + len(CHANGES) + len(FILES) > 1_000
    assert len(CHANGES) + len(FILES) >= 50


@pytest.mark.parametrize("name", CHANGES)
def test_hostile_metadata_is_refused(name: str, sound: Path, tmp_path: Path) -> None:
    with copy_of(sound, tmp_path) as root:
        reseal(root / NEWEST, CHANGES[name])
        assert looked_at(root) == (20, 1)


@pytest.mark.parametrize("name", FILES)
def test_what_is_no_manifest_is_refused(name: str, sound: Path, tmp_path: Path) -> None:
    with copy_of(sound, tmp_path) as root:
        (root / NEWEST / manifest.NAME).write_bytes(FILES[name])
        assert looked_at(root) == (20, 1)


def test_a_manifest_of_a_gigabyte_is_refused_unread(sound: Path, tmp_path: Path) -> None:
    with copy_of(sound, tmp_path) as root:
        os.truncate(root / NEWEST / manifest.NAME, 1 << 30)
        found = newest(root)
        assert "1,073,741,824" in found.refused[0].reason


def test_resealing_alone_is_no_damage(sound: Path, tmp_path: Path) -> None:
    """Else the tests above would prove nothing."""
    with copy_of(sound, tmp_path) as root:
        reseal(root / NEWEST, lambda body: None)
        assert looked_at(root) == (30, 0)


@pytest.mark.parametrize("seed", range(20))
def test_several_damaged_ones_are_passed_over(seed: int, sound: Path, tmp_path: Path) -> None:
    draw = random.Random(seed)
    with copy_of(sound, tmp_path) as root:
        flipped(root, draw)
        shutil.copytree(root / NEWEST, root / "step-25.inc-2")
        os.truncate(root / BEFORE / "shard-1-of-2.bin", 3)
        found = newest(root)
        assert found.checkpoint is not None
        assert found.checkpoint.step == 10
        assert [refused.step for refused in found.refused] == [30, 25, 20]


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_fence_hides_no_checkpoint(seed: int, sound: Path, tmp_path: Path) -> None:
    draw = random.Random(seed)
    with copy_of(sound, tmp_path) as root:
        fence = root / "fence.json"
        data = bytearray(fence.read_bytes())
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        fence.write_bytes(data)
        found = newest(root)
        assert found.checkpoint is not None
        assert found.checkpoint.step == 30
        assert [refused.name for refused in found.refused] == ["fence.json"]


def test_with_nothing_sound_nothing_is_found(sound: Path, tmp_path: Path) -> None:
    with copy_of(sound, tmp_path) as root:
        for path in root.glob("step-*/manifest.json"):
            path.write_bytes(b"{}")
        found = newest(root)
        assert found.checkpoint is None
        assert len(found.refused) == 3


def test_odd_names_are_not_looked_at(sound: Path, tmp_path: Path) -> None:
    with copy_of(sound, tmp_path) as root:
        for name in ("step-99", "step-099.inc-2", "step--1.inc-2", "step-1e3.inc-2", "..inc-2"):
            (root / name).mkdir()
        (root / "step-99\n.inc-2").mkdir()
        assert looked_at(root) == (30, 0)


def test_the_watch_sees_what_it_is_for(tmp_path: Path) -> None:
    for deed in (
        lambda: __import__("this_module_is_not_there"),
        (tmp_path / "other").open,
        (tmp_path / "other").unlink,
    ):
        with pytest.raises(AssertionError), watched(tmp_path), suppress(ImportError, OSError):
            deed()
