"""The command line as a test calls it: words in; exit status, data and talk out."""

from pathlib import Path

import pytest

from tests.cli.called import Called, Weft
from weft.cli.main import main


@pytest.fixture
def weft(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Weft:
    """Call the command line in this process."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)

    def call(*words: str | Path) -> Called:
        status = 0
        try:
            main([str(word) for word in words])
        except SystemExit as left:
            status = int(left.code or 0)
        captured = capsys.readouterr()
        return Called(status, captured.out, captured.err)

    return call
