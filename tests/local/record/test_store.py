"""What is on record survives: kills after the reply, torn files, full disks, newer programs."""

import os
import resource
import shutil
import signal
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, create_engine, text

from tests.local.builders import a_seat, an_entry
from tests.local.daemons import forked
from weft.api.errors import Taken
from weft.brain.event import Past
from weft.local.record.entry import Birth, End, Entry, Happening, Progress
from weft.local.record.store import Store
from weft.local.record.tables import MIGRATIONS, bring_up_to_date
from weft.model.capability import Capability, capabilities
from weft.model.errors import WorldError
from weft.model.state import State

SUBMITTED = Happening(1.0, "Submitted")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(0, 2**31 - 1)
SEATS = st.lists(
    st.builds(a_seat, st.integers(0, 99), st.integers(0, 99)),
    max_size=4,
    unique_by=lambda s: s.number,
).map(tuple)
ENTRIES = st.builds(
    an_entry,
    state=st.sampled_from(State),
    spec=st.dictionaries(st.text(max_size=8), JSON, max_size=4),
    cancelled=st.booleans(),
    epoch=COUNTS,
    serial=COUNTS,
    seats=SEATS,
    target=SEATS,
    target_serial=COUNTS,
    top_seat=COUNTS,
    offers=st.sets(st.sampled_from(Capability)).map(capabilities),
    agent=st.none() | st.builds(Birth, COUNTS, COUNTS, st.just("boot")),
    end=st.none() | st.builds(End, st.sampled_from(["finished", "drained"]), COUNTS, st.text()),
    progress=st.builds(Progress, st.none() | COUNTS, st.none() | COUNTS, live=st.booleans()),
    ranks=st.dictionaries(st.just("1"), st.dictionaries(st.just("0"), COUNTS)),
    work_saved=NUMBERS,
    past=st.builds(Past, NUMBERS, COUNTS, COUNTS, COUNTS),
    message=st.text(),
    exit_code=st.none() | st.integers(-64, 255),
    ended_at=st.none() | NUMBERS,
)


@given(ENTRIES)
def test_an_entry_comes_back_as_it_was_written(entry: Entry) -> None:
    store = in_memory()
    store.add(entry, SUBMITTED)
    assert store.get(entry.uid) == entry
    assert store.active() == ([] if entry.state.final else [entry])
    store.close()


@given(ENTRIES, ENTRIES)
def test_a_change_of_every_field_comes_back_too(before: Entry, after: Entry) -> None:
    store = in_memory()
    store.add(before, SUBMITTED)
    fixed = ("uid", "owner", "name")
    changes = {f: getattr(after, f) for f in Entry.__dataclass_fields__ if f not in fixed}
    store.change(before.uid, changes, Happening(2.0, "Changed"))
    assert store.get(before.uid) == after
    assert [one.what for one in store.history(before.uid)] == ["Changed", "Submitted"]
    store.close()


def test_a_name_belongs_to_one_job_that_is_not_over(tmp_path: Path) -> None:
    store = Store.at(tmp_path / "db")
    store.add(an_entry(uid="a"), SUBMITTED)
    with pytest.raises(Taken):
        store.add(an_entry(uid="b"), SUBMITTED)
    store.add(an_entry(uid="c", name="other"), SUBMITTED)
    store.change("a", {"state": State.FAILED})
    store.add(an_entry(uid="b", submitted_at=901.0), SUBMITTED)
    found = store.newest("alice", "job")
    assert found is not None
    assert found.uid == "b"
    store.close()


def test_several_changes_are_one(tmp_path: Path) -> None:
    store = Store.at(tmp_path / "db")
    store.add(an_entry(uid="a"), SUBMITTED)
    with pytest.raises(WorldError):
        store.change_all({"a": {"message": "half"}, "b": {"no_such_field": 1}})
    found = store.get("a")
    assert found is not None
    assert not found.message
    store.close()


def test_only_the_owner_may_read_the_store(tmp_path: Path) -> None:
    store = Store.at(tmp_path / "db")
    store.add(an_entry(), SUBMITTED)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    store.close()


def test_whatever_was_answered_survives_a_kill(tmp_path: Path) -> None:
    """A child writes and answers; it is killed in the middle, many times."""
    answered: list[str] = []
    for life in range(10):
        reading, writing = os.pipe()
        pid = forked(lambda: write_and_answer(tmp_path / "db", writing, life), tmp_path / "log")  # noqa: B023
        os.close(writing)
        with os.fdopen(reading) as answers:
            for number, line in enumerate(answers):
                answered.append(line.strip())
                if number >= 3 + life:
                    os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    store = Store.at(tmp_path / "db")
    assert len(answered) > 60
    assert set(answered) <= {entry.uid for entry in store.active()}
    store.close()


def write_and_answer(path: Path, answers: int, life: int) -> None:
    store = Store.at(path)
    for number in range(1000):
        entry = an_entry(uid=f"{life}-{number}", name=f"{life}-{number}")
        store.add(entry, SUBMITTED)
        os.write(answers, f"{entry.uid}\n".encode())


def test_a_torn_file_holds_what_was_written_before(tmp_path: Path) -> None:
    """Power fails while a record is written: cut anywhere, what came before is whole."""
    store = Store.at(tmp_path / "db")
    sizes = []
    for number in range(6):
        store.add(an_entry(uid=str(number), name=str(number)), SUBMITTED)
        sizes.append((tmp_path / "db-wal").stat().st_size)
    for cut in range(sizes[2], sizes[-1], 997):
        torn = tmp_path / f"torn-{cut}"
        torn.mkdir()
        shutil.copy(tmp_path / "db", torn / "db")
        (torn / "db-wal").write_bytes((tmp_path / "db-wal").read_bytes()[:cut])
        recovered = Store.at(torn / "db")
        whole = sum(size <= cut for size in sizes)
        assert [entry.uid for entry in recovered.active()] == [str(n) for n in range(whole)]
        recovered.close()
    store.close()


def test_a_full_disk_refuses_and_recovers(tmp_path: Path) -> None:
    status = os.waitpid(forked(lambda: fill(tmp_path / "db"), tmp_path / "log"), 0)[1]
    assert status == 0, (tmp_path / "log").read_text()


def fill(path: Path) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store = Store.at(path)
    store.add(an_entry(uid="before", name="before"), SUBMITTED)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    with pytest.raises(WorldError, match="does not answer"):
        store.add(an_entry(uid="lost", name="lost"), SUBMITTED)
    assert [entry.uid for entry in store.active()] == ["before"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    store.add(an_entry(uid="after", name="after"), SUBMITTED)
    assert [entry.uid for entry in store.active()] == ["after", "before"]


def test_a_store_of_a_newer_program_is_refused(tmp_path: Path) -> None:
    Store.at(tmp_path / "db").close()
    connection = sqlite3.connect(tmp_path / "db")
    connection.execute("update settings set value = '99' where key = 'schema'")
    connection.commit()
    connection.close()
    with pytest.raises(WorldError, match="version 99"):
        Store.at(tmp_path / "db")


def test_migrations_run_once_and_in_order(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'db'}")
    ran: list[int] = []

    def step(number: int) -> None:
        ran.append(number)

    def first(connection: Connection) -> None:
        connection.execute(text("alter table jobs add column added integer"))
        step(1)

    steps = (*MIGRATIONS, first, lambda _: step(2))
    with engine.begin() as connection:
        assert bring_up_to_date(connection) == len(MIGRATIONS) + 1
    for _ in range(2):
        with engine.begin() as connection:
            assert bring_up_to_date(connection, steps) == len(MIGRATIONS) + 3
    assert ran == [1, 2]
    engine.dispose()


def test_a_store_from_before_offers_were_kept_is_taken_over(tmp_path: Path) -> None:
    store = Store.at(tmp_path / "db")
    store.add(an_entry(offers=(Capability.TENSOR,)), SUBMITTED)
    store.close()
    connection = sqlite3.connect(tmp_path / "db")
    connection.execute("alter table jobs drop column offers")
    connection.execute("update settings set value = '5' where key = 'schema'")
    connection.commit()
    connection.close()
    store = Store.at(tmp_path / "db")
    assert [entry.offers for entry in store.active()] == [()]
    store.change(an_entry().uid, {"offers": (Capability.DATA,)}, Happening(2.0, "Changed"))
    assert [entry.offers for entry in store.active()] == [(Capability.DATA,)]
    store.close()


def test_an_offer_that_a_newer_program_knows_is_left_out(tmp_path: Path) -> None:
    store = Store.at(tmp_path / "db")
    store.add(an_entry(), SUBMITTED)
    store.close()
    connection = sqlite3.connect(tmp_path / "db")
    connection.execute("""update jobs set offers = '["tensor", "magic"]'""")
    connection.commit()
    connection.close()
    store = Store.at(tmp_path / "db")
    assert [entry.offers for entry in store.active()] == [(Capability.TENSOR,)]
    store.close()


def test_what_jobs_had_that_are_over_is_summed(tmp_path: Path) -> None:
    store = Store.at(tmp_path / "db")
    assert store.ended() == (0.0, 0)
    plans, plain = {"model": {"layers": 2}}, {"model": None}
    for name, state, spec, stops in (
        ("a", State.SUCCEEDED, plans, 2),
        ("b", State.FAILED, plain, 3),
        ("c", State.CANCELLED, {}, 1),
        ("d", State.RUNNING, plans, 7),
        ("e", State.SUCCEEDED, plans, 0),
    ):
        past = Past(100.5, preemptions=stops)
        store.add(an_entry(uid=name, name=name, state=state, spec=spec, past=past), SUBMITTED)
        for gpus in (2, 4, 0):
            store.change(name, {"message": ""}, Happening(2.0, "Starting", gpus=gpus))
    assert store.ended() == (402.0, 8)
    store.close()


def test_a_setting_is_settled_once(tmp_path: Path) -> None:
    for offered in ("first", "second"):
        store = Store.at(tmp_path / "db")
        assert store.setting("instance", offered) == "first"
        store.close()


def in_memory() -> Store:
    return Store(create_engine("sqlite://"))
