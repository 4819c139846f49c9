"""The terminal that is lent to a session."""

import os
import pty
import select

import pytest

from tests.waiting import HANG_SECONDS
from weft.cli.shell.attach import _raw


def test_what_is_typed_before_the_session_listens_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, screen = pty.openpty()
    with open(screen, closefd=True) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        os.write(keys, b"nvidia-smi\n")
        assert select.select([screen], [], [], HANG_SECONDS)[0], "a line has come"
        with _raw():
            assert select.select([screen], [], [], HANG_SECONDS)[0], "it is still there"
            assert os.read(screen, 99) == b"nvidia-smi\n"
    os.close(keys)
