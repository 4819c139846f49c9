"""What is refused before anything is written down."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.local.builders import a_machine, an_entry
from weft.api.backend import Identity, JobKey, Origin
from weft.api.errors import Forbidden, NoSuchJob
from weft.local.agents.cgroups import Cgroups
from weft.local.answers import backend
from weft.local.answers.backend import LocalBackend
from weft.local.folders import Folders
from weft.local.reconcile.parsed_request import MACHINE_LIMITS
from weft.local.record.entry import Happening
from weft.local.record.store import Store
from weft.model.errors import SpecError, WeftError, WorldError

ALICE = Identity(1001, "alice")
MALLORY = Identity(1666, "alice")  # the same name, another account
SUBMITTED = Happening(1.0, "Submitted")


class Host:
    """As much of a daemon as refusals need."""

    recipe = "maxmin"
    cgroups: Cgroups | None = None
    user_check: Any = None

    def __init__(self, folder: Path) -> None:
        self.folders = Folders(folder)
        self.folders.open(for_all=False)
        self.store = Store.at(self.folders.store)
        self.term: Any = self
        self.machine = a_machine()
        self.limits = MACHINE_LIMITS
        self.book: Any = Shelf()
        self.news: Any = None

    def stop(self, farewell: object) -> None: ...


class Shelf(list[Any]):
    """Entries, and leave to read."""

    def named(self, id: str) -> None: ...

    async def read(self, what: Any, *given: Any, **named: Any) -> Any:  # noqa: ANN401
        return what(*given, **named)


@pytest.fixture
def host(tmp_path: Path) -> Any:  # noqa: ANN401
    found = Host(tmp_path)
    yield found
    found.store.close()


def submit(host: Host, spec: dict[str, Any], name: str = "job") -> None:
    asked = LocalBackend(host).submit(ALICE, spec, name, origin=Origin(), dry_run=False)
    asyncio.run(asked)


@pytest.mark.parametrize(
    ("spec", "name", "error"),
    [
        ({"run": "x"}, "../../etc", SpecError),
        ({"run": "x"}, "Job", SpecError),
        ({"run": "x"}, "-job", SpecError),
        ({"run": "x"}, "j" * 64, SpecError),
        ({"run": "x"}, "", SpecError),
        ({"run": "x", "env": {"A": "y" * 300_000}}, "job", SpecError),
        ({"run": "x", "resources": {"gpus": 5}}, "job", SpecError),
        ({"no": "run"}, "job", SpecError),
    ],
)
def test_what_cannot_be_is_refused(
    host: Host, spec: dict[str, Any], name: str, error: type[WeftError]
) -> None:
    with pytest.raises(error):
        submit(host, spec, name)
    assert list(host.folders.jobs.iterdir()) == []


def test_a_user_with_a_thousand_waiting_jobs_waits(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "MOST_WAITING", 3)
    host.book.extend(an_entry(uid=str(number)) for number in range(3))
    with pytest.raises(WorldError, match="3 jobs that wait"):
        submit(host, {"run": "x"})


def test_a_job_belongs_to_an_account_and_not_to_a_name(host: Host) -> None:
    host.store.add(an_entry(), SUBMITTED)
    door = LocalBackend(host)
    with pytest.raises(Forbidden):
        asyncio.run(door.cancel(MALLORY, JobKey("alice", "job"), dry_run=True))
    with pytest.raises(NoSuchJob):
        asyncio.run(door.cancel(ALICE, JobKey("alice", "jab"), dry_run=True))
