"""A place where agents see each other come and go."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.agent.leases.company import Company
from weft.agent.leases.meeting import MEMBERS, Meeting
from weft.agent.settings import from_environment

HOLDS = """
import sys, time
from pathlib import Path
from weft.agent.leases.company import Company
from weft.agent.leases.meeting import Meeting
Meeting(Company(Path(sys.argv[1]), (0,))).enter()
print("there", flush=True)
time.sleep(600)
"""


def a_meeting(folder: Path) -> Meeting:
    meeting = Meeting(Company(folder, (0,)))
    meeting.enter()
    return meeting


def test_one_alone_has_no_company_and_two_have_each_others(tmp_path: Path) -> None:
    one = a_meeting(tmp_path)
    assert not one.others()
    other = a_meeting(tmp_path)
    assert one.others() and other.others()
    other.leave()
    assert not one.others()
    one.leave()
    assert not list((tmp_path / MEMBERS).iterdir())


def test_one_that_is_killed_is_gone(tmp_path: Path) -> None:
    one = a_meeting(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"there\n"
        assert one.others()
        other.kill()
        other.wait()
        assert not one.others()
    assert len(list((tmp_path / MEMBERS).iterdir())) == 1, "its file is taken away"


def test_what_nobody_holds_is_nobody(tmp_path: Path) -> None:
    one = a_meeting(tmp_path)
    members = tmp_path / MEMBERS
    (members / "left").write_text("")
    (members / "link").symlink_to("/etc/passwd")
    os.mkfifo(members / "pipe")
    (members / "folder").mkdir()
    assert not one.others()  # to open the pipe would take for ever


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        a_meeting(tmp_path / "nowhere")


def test_a_pod_is_told_by_a_variable() -> None:
    told = from_environment(("x",), {"WEFT_MEETING": "/run/company", "WEFT_SEAT_GPUS": "2"})
    assert told.meeting == Company(Path("/run/company"), (0, 1))
    assert told.company is None
    assert from_environment(("x",), {}).meeting is None
