"""Several real users on one machine: processes with their numbers, and a view that they can use.

Root's own folder is closed to others, and the interpreter that runs the tests may lie in it. A
daemon that is to start jobs of others therefore gets a view of the machine of its own, in which
what they need is mounted where it belongs; nothing changes for anybody else.
"""

import ctypes
import json
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

ROOT: Final = Path(__file__).parents[2]
ALICE, BOB, CAROL, DAVE = 61001, 61002, 61003, 61004
CLONE_NEWNS: Final = 0x20000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
OTHERS_MAY_ENTER: Final = 0o005

T = TypeVar("T")


def as_user(uid: int, run: Callable[[], T]) -> T:
    """What that user gets, in a process of theirs; an error there is an error here."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        os.close(reading)
        _become(uid)
        _answer(writing, run)
    os.close(writing)
    with os.fdopen(reading) as answers:
        told: dict[str, Any] = json.loads(answers.read() or "{}")
    os.waitpid(pid, 0)
    if "error" in told:
        raise AsUser(told["error"], told["trace"])
    found: T = told["value"]
    return found


class AsUser(Exception):
    """Something that failed for another user; says the kind of error first."""

    def __init__(self, error: str, trace: str) -> None:
        super().__init__(error)
        self.add_note(trace)


def needs_root() -> None:
    """Whoever checks everything checks this too; others may go without."""
    if os.geteuid() == 0 and _may_mount():
        return
    if os.environ.get("CI"):
        pytest.fail("jobs of several users need root, with leave to mount")
    pytest.skip("jobs of several users need root, with leave to mount")


def open_to_others() -> None:
    """From now on this process, and what it starts, sees what other users have to see."""
    _libc_call("unshare", CLONE_NEWNS)
    _mount("none", "/", MS_REC | MS_PRIVATE)
    needed = list(_needed())
    for closed in {found for path in needed if (found := _closed(path)) is not None}:
        stage = Path(tempfile.mkdtemp(prefix="weft-view-"))
        stage.chmod(0o755)
        for path in needed:
            if closed in path.parents:
                inner = stage / path.relative_to(closed)
                _make(stage, inner)
                _mount(str(path), str(inner), MS_BIND | MS_REC)
        _mount(str(stage), str(closed), MS_BIND | MS_REC)


def _needed() -> Iterator[Path]:
    """Without those that lie in one another."""
    found = {
        ROOT,
        Path(sys.prefix).resolve(),  # a link into a closed folder looks open itself
        Path(sys.base_prefix).resolve(),
        Path(sys.executable).resolve().parent.parent,
        Path(os.__file__).parent.parent.parent,
    }
    for path in sorted(found):
        if not any(other in path.parents for other in found):
            yield path


def _closed(path: Path) -> Path | None:
    """The outermost folder above that others cannot enter."""
    above = [*reversed(path.parents), path]
    return next((p for p in above if p.stat().st_mode & OTHERS_MAY_ENTER != OTHERS_MAY_ENTER), None)


def _make(stage: Path, inner: Path) -> None:
    for folder in (*reversed(inner.parents), inner):
        if stage in folder.parents and not folder.exists():
            folder.mkdir(mode=0o755)


def _become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    os.umask(0o022)


def _answer(writing: int, run: Callable[[], Any]) -> None:
    try:
        told = {"value": run()}
    except BaseException as error:
        kind = f"{type(error).__name__}: {error}"
        told = {"error": kind, "trace": traceback.format_exc()}
    with os.fdopen(writing, "w") as answers:
        json.dump(told, answers)
    os._exit(0)


def _may_mount() -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        try:
            _libc_call("unshare", CLONE_NEWNS)
            _mount("none", "/", MS_REC | MS_PRIVATE)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def _mount(source: str, target: str, flags: int) -> None:
    _libc_call("mount", source.encode(), target.encode(), None, flags, None)


def _libc_call(name: str, *arguments: Any) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    made = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments]
    if getattr(libc, name)(*made) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
