"""What a checkpoint can say of the program that made it."""

import hashlib
from pathlib import Path

from weft.agent.program import digest_of_scripts, version_of


def test_the_scripts_of_a_command_are_digested(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("x = 1")
    expected = hashlib.sha256(b"x = 1").hexdigest()
    assert digest_of_scripts(("python", str(script), "--lr", "3")) == expected
    script.write_text("x = 2")
    assert digest_of_scripts(("python", str(script))) != expected


def test_a_command_without_scripts_has_none() -> None:
    assert digest_of_scripts(("bash", "-c", "true")) == ""
    assert digest_of_scripts(("python", "/nowhere/train.py")) == ""


def test_a_version_is_known_without_an_import() -> None:
    assert version_of("pytest")
    assert version_of("no-such-package") == ""
