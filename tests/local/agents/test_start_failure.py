"""Start failures name the path, the account and the remedy."""

import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.local.builders import a_machine, a_started
from tests.local.users import ALICE, BOB
from weft.api.backend import Origin
from weft.local.agents.account import Account
from weft.local.agents.launch import Launcher
from weft.local.agents.start_failure import INSTALL, first_closed, start_failure
from weft.local.answers.health import UserCheck
from weft.local.folders import TOKEN, Folders
from weft.local.record.entry import Owner
from weft.model.errors import WorldError
from weft.model.state import State
from weft.view.health import Verdict

MEMBERS = 61099  # a group that no account of this machine has
FOREIGN = Account(Owner("alice", ALICE, ALICE), "/", "/bin/sh", (ALICE,))
ME = Account.of(Owner("me", os.getuid(), os.getgid()))
needs_accounts = pytest.mark.skipif(os.geteuid() != 0, reason="only root has other accounts")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every account can enter; pytest's own is closed to others."""
    with tempfile.TemporaryDirectory(prefix="wl-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def launcher(place: Path) -> Launcher:
    folders = Folders(place / "weft")
    folders.open(for_all=True)
    paths = tuple(path for path in sys.path if os.path.isabs(path))
    return Launcher(folders, a_machine(gpus=False), "test", paths=paths)


@pytest.fixture
def closed_python(place: Path) -> Path:
    """An interpreter in a folder of root's, as pyenv installs one below /root."""
    python = place / "closed" / "python"
    python.parent.mkdir(mode=0o700)
    python.symlink_to(sys.executable)
    return python


@needs_accounts
def test_an_interpreter_in_a_closed_folder_is_named_with_the_account_and_the_remedy(
    launcher: Launcher, closed_python: Path
) -> None:
    with pytest.raises(WorldError) as found:
        replace(launcher, interpreter=str(closed_python)).check(FOREIGN)
    assert str(found.value) == (
        f"cannot start as alice: no permission for {closed_python} "
        f"({closed_python.parent} is closed to alice)"
    )
    assert found.value.hint == INSTALL


@needs_accounts
def test_doctor_tells_root_of_others_and_a_user_of_themselves(
    launcher: Launcher, closed_python: Path
) -> None:
    check = UserCheck(replace(launcher, interpreter=str(closed_python)))
    told = check.finding(Owner("root", 0, 0))
    assert told.verdict is Verdict.FAIL
    assert told.text.startswith("jobs of other users: cannot start as nobody: no permission for")
    assert told.remedy == "install Weft where all users can read it"
    told = check.finding(FOREIGN.owner)
    assert told.verdict is Verdict.FAIL
    assert told.text.startswith(f"cannot start as alice: no permission for {closed_python}")
    assert told.remedy == INSTALL


@needs_accounts
def test_a_source_folder_that_is_closed_is_found_behind_the_import_error(
    place: Path, launcher: Launcher
) -> None:
    """The interpreter starts, and says only that there is no such module."""
    sources = place / "sources"
    sources.mkdir(mode=0o700)
    (sources / "weft_closed_agent.py").write_text("def main(): ...\n")
    sys.path.append(str(sources))
    try:
        found = start_failure(
            FOREIGN, "ModuleNotFoundError: No module named 'weft_closed_agent'", (), place
        )
    finally:
        sys.path.remove(str(sources))
    assert f"no permission for {sources}/weft_closed_agent.py ({sources} is closed" in str(found)


@needs_accounts
def test_a_folder_of_the_daemon_that_is_closed_has_another_remedy(
    place: Path, launcher: Launcher
) -> None:
    place.chmod(0o700)
    found = launcher.failure(FOREIGN, f"PermissionError: Permission denied: '{place}/weft/jobs/1'")
    assert "--folder" in found.hint
    assert f"no permission for {place}/weft/jobs/1 ({place} is closed to alice)" in str(found)


@needs_accounts
def test_groups_count(place: Path) -> None:
    target = place / "members" / "python"
    target.parent.mkdir()
    target.touch(mode=0o755)
    os.chown(target.parent, 0, MEMBERS)
    target.parent.chmod(0o750)
    assert first_closed(FOREIGN, target) == target.parent
    assert first_closed(replace(FOREIGN, groups=(ALICE, MEMBERS)), target) is None
    assert first_closed(replace(FOREIGN, owner=Owner("bob", BOB, MEMBERS)), target) is None


@needs_accounts
def test_links_are_followed_to_the_folder_that_is_closed(place: Path) -> None:
    (place / "real").mkdir()
    (place / "real" / "closed").mkdir(mode=0o700)
    (place / "real" / "closed" / "file").touch()
    (place / "one").symlink_to("real")
    (place / "two").symlink_to(place / "one" / "closed")
    (place / "round").symlink_to("round")
    closed = place / "real" / "closed"
    assert first_closed(FOREIGN, place / "two" / "file") == closed
    assert first_closed(FOREIGN, place / "one" / ".." / "one" / "closed" / "file") == closed
    assert first_closed(FOREIGN, place / "one") is None
    first_closed(FOREIGN, place / "round")


def test_an_interpreter_that_is_gone_is_told_in_the_systems_words(launcher: Launcher) -> None:
    with pytest.raises(WorldError, match="No such file or directory: '/nowhere/python'"):
        replace(launcher, interpreter="/nowhere/python").check(ME)


def test_an_agent_that_cannot_be_imported_is_told_in_its_last_line(launcher: Launcher) -> None:
    with pytest.raises(WorldError, match=r"cannot start as me: ModuleNotFoundError: .*no_such"):
        replace(launcher, agent="no_such_agent").check(ME)


def test_an_incarnation_is_void_though_its_interpreter_cannot_start(launcher: Launcher) -> None:
    """Else its record would hold the slot that it was to have."""
    entry = a_started(
        State.STARTING,
        0,
        owner=ME.owner,
        uid="u1",
        spec={"run": "true"},
        origin=Origin("/", {}),
    )
    launcher.folders.make_job(entry.uid, entry.owner)
    broken = replace(launcher, interpreter="/nowhere/python")
    assert broken.void(entry)
    assert (launcher.folders.epoch(entry) / TOKEN).exists()
    assert not broken.void(entry)
