"""What each user has had of the machine, beside what their fair part was."""

import asyncio
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import create_engine, inspect, text

from tests.local.builders import a_started, an_entry
from tests.local.daemons import Lab, a_lab, wait_until
from weft.api.peer import user_name
from weft.cli.overview.queues import as_dict, grid_of
from weft.local import status_writer
from weft.local.record.entry import Owner
from weft.local.record.store import Store
from weft.local.record.usage import Demand, Ledger, Usage, demands_of, fair_parts
from weft.local.status_writer import StatusWriter
from weft.model.errors import WorldError
from weft.model.state import State
from weft.view.queues import QueueLine

BOB = Owner("bob", 1002, 1002)


@pytest.mark.parametrize(
    ("slots", "wanted", "expected"),
    [
        (4, {"alice": 4, "bob": 4}, {"alice": 2, "bob": 2}),
        (4, {"alice": 1, "bob": 8}, {"alice": 1, "bob": 3}),
        (6, {"alice": 1, "bob": 9, "carol": 9}, {"alice": 1, "bob": 2.5, "carol": 2.5}),
        (4, {"alice": 0, "bob": 1}, {"alice": 0, "bob": 1}),
        (4, {}, {}),
    ],
)
def test_fair_parts_are_max_min(
    slots: int, wanted: dict[str, int], expected: dict[str, float]
) -> None:
    assert fair_parts(slots, wanted) == expected


def test_a_ledger_adds_up_and_bounds_what_nobody_saw() -> None:
    ledger = Ledger({"bob": Usage(10.0, 10.0)})
    demands = {"alice": Demand(held=4, wanted=4), "bob": Demand(held=0, wanted=4)}
    ledger.look(100.0, 4, demands)
    ledger.look(110.0, 4, demands)
    assert ledger.users == {"alice": Usage(40.0, 20.0), "bob": Usage(10.0, 30.0)}
    ledger.look(90.0, 4, demands)  # a clock that was set back
    ledger.look(1e9, 4, demands)
    assert ledger.users["alice"] == Usage(40.0 + 240.0, 20.0 + 120.0)


def test_demand_is_what_jobs_hold_and_could_be() -> None:
    running, waiting = a_started(State.RUNNING, 0, 1), an_entry(uid="b" * 16, owner=BOB)
    over = an_entry(uid="c" * 16, owner=BOB, state=State.FAILED)
    found = demands_of((running, waiting, over), {running.uid: 4, waiting.uid: 3, over.uid: 9})
    assert found == {"alice": Demand(2, 4), "bob": Demand(0, 3)}


def test_a_store_of_before_gets_the_table(tmp_path: Path) -> None:
    path = tmp_path / "weft.db"
    Store.at(path).close()
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE usage"))
        connection.execute(text("ALTER TABLE events DROP COLUMN failure"))
        connection.execute(text("ALTER TABLE jobs DROP COLUMN party"))
        for column in ("plan", "target_plan", "offers"):
            connection.execute(text(f"ALTER TABLE jobs DROP COLUMN {column}"))
        connection.execute(text("UPDATE settings SET value = '1' WHERE key = 'schema'"))
    store = Store.at(path)
    store.write_usage({"alice": Usage(1.0, 2.0)})
    store.write_usage({"alice": Usage(3.0, 4.0)})
    assert (store.version, store.usage()) == (6, {"alice": Usage(3.0, 4.0)})
    store.close()
    assert inspect(engine).has_table("usage")


def test_users_see_what_they_have_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_writer, "USAGE_SECONDS", 0.0)
    monkeypatch.setattr(status_writer, "PAUSE_SECONDS", 0.1)
    me = user_name(os.getuid())
    with a_lab(slots=2) as lab:
        lab.start()
        lab.submit("job", "model total=100000 step=0.02", gpus=2)
        lab.wait_for("job", "Running")
        wait_until(lambda: bool(hours(lab.client.queues())), "the first second to be counted")
        wait_until(lambda: on_record(lab, me) > 2.0, "it to be written down", lab.log)
        lab.kill()
        lab.start()
        total, mine = lab.client.queues()
        assert (total.name, mine.parent, mine.namespaces) == ("default", "default", (me,))
        assert (mine.used, mine.running, mine.waiting) == (2, 1, 0)
        assert 0 < hours((mine,)) <= (mine.owed_gpu_hours or 0.0), "it was written down"
        assert as_dict((total, mine))["queues"][1]["gpu_hours"] == mine.gpu_hours
        assert "GPU hours" in grid_of((total, mine)).titles


def test_what_could_not_be_written_is_written_later() -> None:
    """Of Bob, too, who asks for nothing any more."""
    ledger, written = Ledger({}), []
    ledger.look(0.0, 4, {"bob": Demand(2, 2)})
    ledger.look(10.0, 4, {"bob": Demand(2, 2)})

    async def write_usage(users: Mapping[str, Usage]) -> None:
        written.append(users)
        if len(written) == 1:
            ledger.look(20.0, 4, {"alice": Demand(1, 1)})
            raise WorldError("the disk is full", hint="make room")

    source = SimpleNamespace(ledger=ledger, now=lambda: 100.0 * len(written))
    status_writer = StatusWriter(source, SimpleNamespace(write_usage=write_usage))  # type: ignore[arg-type]
    with pytest.raises(WorldError):
        asyncio.run(status_writer._write_usage())
    asyncio.run(status_writer._write_usage())
    assert written[1] == {"alice": Usage(10.0, 10.0), "bob": Usage(20.0, 20.0)}


def on_record(lab: Lab, user: str) -> float:
    """GPU seconds that a daemon which begins now would know of."""
    with lab._store() as store:
        return store.usage().get(user, Usage()).got


def hours(lines: Iterable[QueueLine]) -> float:
    return sum(line.gpu_hours or 0.0 for line in lines)
