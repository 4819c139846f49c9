"""A daemon with its real agent, as commands find it."""

from collections.abc import Iterator

import pytest

from tests.cli.called import Weft
from tests.local.daemons import Lab, a_lab

AGENT = "weft.agent.__main__"


@pytest.fixture(scope="module")
def daemon() -> Iterator[Lab]:
    with a_lab(agent=AGENT) as lab:
        lab.start()
        yield lab


@pytest.fixture
def here(daemon: Lab, weft: Weft, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """The present world, and its folder the present folder."""
    monkeypatch.setenv("WEFT_CONTEXT", "local")
    monkeypatch.setenv("WEFT_LOCAL_SOCKET", str(daemon.socket))
    monkeypatch.chdir(daemon.folder)
    return daemon
