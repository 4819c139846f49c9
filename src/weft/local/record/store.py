"""The store: what is on record, and stays there when the machine loses power in the next instant.

Every change is one transaction that is on disk when the call returns (SQLite in WAL mode with
`synchronous=FULL`). There is one writer, the daemon; what it writes is the only thing that a later
daemon believes without looking.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, Row, create_engine, delete, event, func, insert, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from weft.api.backend import Origin
from weft.api.errors import Taken
from weft.brain.event import Past
from weft.failure.retry import RetryState
from weft.local.record.entry import (
    Birth,
    End,
    Entry,
    Happening,
    Owner,
    Progress,
    seats_from_json,
    seats_to_json,
)
from weft.local.record.tables import EVENTS, JOBS, SETTINGS, USAGE, bring_up_to_date
from weft.local.record.usage import Usage
from weft.model.capability import capabilities
from weft.model.errors import WorldError
from weft.model.state import State

PATIENCE_SECONDS: Final = 10.0
MOST_EVENTS: Final = 200

Changes = Mapping[str, Any]


class Store:
    """Entries and their histories, in one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        with _told(), engine.begin() as connection:
            self.version = bring_up_to_date(connection)

    @classmethod
    def at(cls, path: Path) -> "Store":
        """The store in that file, which only its owner may read."""
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": PATIENCE_SECONDS})
        event.listen(engine, "connect", _set_durable)
        return cls(engine)

    def close(self) -> None:
        self._engine.dispose()

    # --- writing --------------------------------------------------------------------------------

    def add(self, entry: Entry, happening: Happening) -> None:
        """A new job; its name is free, or this is refused."""
        try:
            with _told(), self._engine.begin() as connection:
                connection.execute(insert(JOBS).values(**_row(entry)))
                connection.execute(insert(EVENTS).values(**_event(entry.uid, happening)))
        except IntegrityError as error:
            raise name_taken(entry) from error

    def revive(self, uid: str, changes: Changes, happening: Happening) -> None:
        """A job that was over is one again; its name is free, or this is refused."""
        try:
            self.change(uid, changes, happening)
        except IntegrityError as error:
            raise Taken(
                "another job of that name is not over",
                hint="cancel that one first, or submit this one under another name",
            ) from error

    def change(self, uid: str, changes: Changes, *happenings: Happening) -> None:
        """Some fields of one entry, and what is to be remembered of why."""
        self.change_all({uid: changes}, {uid: happenings})

    def change_all(
        self,
        changes: Mapping[str, Changes],
        happenings: Mapping[str, Sequence[Happening]] | None = None,
    ) -> None:
        """Several entries at once: all of it or nothing."""
        rows = [_event(uid, one) for uid, some in (happenings or {}).items() for one in some]
        with _told(), self._engine.begin() as connection:
            for uid, changed in changes.items():
                connection.execute(
                    update(JOBS).where(JOBS.c.uid == uid).values(**_columns(changed))
                )
            if rows:
                connection.execute(insert(EVENTS), rows)

    def forget(self, uids: Collection[str]) -> None:
        """Nothing is left of these."""
        with _told(), self._engine.begin() as connection:
            connection.execute(delete(EVENTS).where(EVENTS.c.job.in_(uids)))
            connection.execute(delete(JOBS).where(JOBS.c.uid.in_(uids)))

    # --- reading --------------------------------------------------------------------------------

    def active(self) -> list[Entry]:
        """All that is not over, in the order of submission."""
        return self._entries(
            select(JOBS).where(JOBS.c.active).order_by(JOBS.c.submitted_at, JOBS.c.uid)
        )

    def get(self, uid: str) -> Entry | None:
        found = self._entries(select(JOBS).where(JOBS.c.uid == uid))
        return found[0] if found else None

    def newest(self, user: str, name: str) -> Entry | None:
        """The last job that had this name."""
        query = select(JOBS).where(JOBS.c.user == user, JOBS.c.name == name)
        found = self._entries(query.order_by(JOBS.c.submitted_at.desc(), JOBS.c.uid).limit(1))
        return found[0] if found else None

    def kept(self, user: str, uid: str) -> Entry | None:
        """That user's job of this number, whatever had its name since."""
        found = self.get(uid)
        return found if found is not None and found.owner.user == user else None

    def over(self, *, user: str | None = None, limit: int = 1_000) -> list[Entry]:
        """Jobs that have ended, the latest first."""
        query = select(JOBS).where(~JOBS.c.active)
        if user is not None:
            query = query.where(JOBS.c.user == user)
        return self._entries(query.order_by(JOBS.c.ended_at.desc(), JOBS.c.uid).limit(limit))

    def ended_before(self, at: float) -> list[Entry]:
        return self._entries(
            select(JOBS).where(~JOBS.c.active, JOBS.c.ended_at < at).order_by(JOBS.c.ended_at)
        )

    def history(self, uid: str, *, limit: int = MOST_EVENTS) -> list[Happening]:
        """What happened to the job, the latest first."""
        query = select(EVENTS).where(EVENTS.c.job == uid).order_by(EVENTS.c.id.desc()).limit(limit)
        with _told(), self._engine.connect() as connection:
            return [_happening(row) for row in connection.execute(query)]

    def failures(
        self, since: float, *, user: str | None = None, limit: int = 10_000
    ) -> list[tuple[Entry, Happening]]:
        """Ends that were failures, the latest first, each with its job."""
        rows = select(EVENTS).where(EVENTS.c.failure.is_not(None), EVENTS.c.at >= since)
        if user is not None:
            rows = rows.join(JOBS, JOBS.c.uid == EVENTS.c.job).where(JOBS.c.user == user)
        with _told(), self._engine.connect() as connection:
            query = rows.order_by(EVENTS.c.id.desc()).limit(limit)
            found = [(row.job, _happening(row)) for row in connection.execute(query)]
        wanted = select(JOBS).where(JOBS.c.uid.in_({uid for uid, _ in found}))
        jobs = {entry.uid: entry for entry in self._entries(wanted)}
        return [(jobs[uid], happening) for uid, happening in found if uid in jobs]

    def usage(self) -> dict[str, Usage]:
        with _told(), self._engine.connect() as connection:
            rows = connection.execute(select(USAGE))
            return {row.user: Usage(row.got, row.owed) for row in rows}

    def write_usage(self, users: Mapping[str, Usage]) -> None:
        with _told(), self._engine.begin() as connection:
            connection.execute(delete(USAGE).where(USAGE.c.user.in_(users)))
            connection.execute(
                insert(USAGE), [{"user": user, **asdict(one)} for user, one in users.items()]
            )

    def ended(self) -> tuple[float, int]:
        """What jobs have had that are over: GPU-seconds, and GPUs that were started anew for others
        or for a plan, of those whose plan is chosen."""
        over, past = ~JOBS.c.active, JOBS.c.past
        widest = select(func.max(EVENTS.c.gpus)).where(EVENTS.c.job == JOBS.c.uid)
        stops, chosen = past["preemptions"].as_integer(), JOBS.c.spec["model"].as_string()
        served = select(func.sum(past["attained_gpu_seconds"].as_float())).where(over)
        restarted = select(func.sum(stops * widest.scalar_subquery()))
        restarted = restarted.where(over, stops > 0, chosen.is_not(None))
        with _told(), self._engine.connect() as connection:
            found = [connection.execute(query).scalar() or 0 for query in (served, restarted)]
        return float(found[0]), int(found[1])

    def setting(self, key: str, otherwise: str) -> str:
        """A value that is settled when it is first asked for."""
        query = select(SETTINGS.c.value).where(SETTINGS.c.key == key)
        with _told(), self._engine.begin() as connection:
            found = connection.execute(query).scalar()
            if found is None:
                connection.execute(insert(SETTINGS).values(key=key, value=otherwise))
            return otherwise if found is None else str(found)

    def find_setting(self, key: str) -> str | None:
        query = select(SETTINGS.c.value).where(SETTINGS.c.key == key)
        with _told(), self._engine.connect() as connection:
            found = connection.execute(query).scalar()
        return None if found is None else str(found)

    def write_setting(self, key: str, value: str) -> None:
        with _told(), self._engine.begin() as connection:
            connection.execute(delete(SETTINGS).where(SETTINGS.c.key == key))
            connection.execute(insert(SETTINGS).values(key=key, value=value))

    def newest_version(self) -> int:
        """The number of the last change."""
        with _told(), self._engine.connect() as connection:
            return int(connection.execute(select(func.max(JOBS.c.version))).scalar() or 0)

    def _entries(self, query: Any) -> list[Entry]:  # noqa: ANN401 - any select of whole rows
        with _told(), self._engine.connect() as connection:
            return [_entry(row) for row in connection.execute(query)]


# --- rows ---------------------------------------------------------------------------------------


def _row(entry: Entry) -> dict[str, Any]:
    names = [name for name in Entry.__dataclass_fields__ if name not in ("uid", "owner", "name")]
    owner = entry.owner
    return {
        "uid": entry.uid,
        "user": owner.user,
        "owner_uid": owner.uid,
        "owner_gid": owner.gid,
        "name": entry.name,
        **_columns({name: getattr(entry, name) for name in names}),
    }


def _columns(changes: Changes) -> dict[str, Any]:
    found = {name: _plain(name, value) for name, value in changes.items()}
    if "state" in changes:
        found["active"] = not changes["state"].final
    return found


_PLAIN: Final[dict[str, Callable[[Any], Any]]] = {
    "state": attrgetter("name"),
    "seats": seats_to_json,
    "target": seats_to_json,
    "reasons": list,
    "offers": list,
}


def _plain(name: str, value: Any) -> Any:  # noqa: ANN401 - a field of any type
    if name in _PLAIN:
        return _PLAIN[name](value)
    if isinstance(value, Past):
        retry = None if value.retry is None else value.retry.told()
        return asdict(replace(value, retry=None)) | {"retry": retry}
    if isinstance(value, End):
        return value.to_json()
    if isinstance(value, Origin | Birth | Progress):
        return asdict(value)
    return value


def _past(found: dict[str, Any]) -> Past:
    retry = found.pop("retry", None)
    return Past(**found, retry=None if retry is None else RetryState.read(retry))


def _entry(row: Row[Any]) -> Entry:
    found = dict(row._mapping)
    found.pop("active")
    user, uid, gid = (found.pop(name) for name in ("user", "owner_uid", "owner_gid"))
    agent, end = found.pop("agent"), found.pop("end")
    return Entry(
        owner=Owner(user, uid, gid),
        state=State[found.pop("state")],
        origin=Origin(**found.pop("origin")),
        seats=seats_from_json(found.pop("seats")),
        target=seats_from_json(found.pop("target")),
        agent=Birth(**agent) if agent else None,
        end=End.from_json(end) if end else None,
        progress=Progress(**found.pop("progress")),
        past=_past(found.pop("past")),
        reasons=tuple(found.pop("reasons")),
        offers=capabilities(found.pop("offers")),
        **found,
    )


def _event(uid: str, happening: Happening) -> dict[str, Any]:
    return {"job": uid, **asdict(happening)}


def _happening(row: Row[Any]) -> Happening:
    found = dict(row._mapping)
    return Happening(**{name: found[name] for name in Happening.__dataclass_fields__})


# --- the database -------------------------------------------------------------------------------


def _set_durable(connection: Any, _record: object) -> None:  # noqa: ANN401 - the driver's own
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def name_taken(entry: Entry) -> Taken:
    """Another job has its name."""
    return Taken(
        f"{entry.owner.user} has a job '{entry.name}' that is not over",
        hint="give it another name, or cancel the first one",
    )


@contextmanager
def _told() -> Iterator[None]:
    """What the database says, in our words; a name that is taken is for the caller to tell."""
    try:
        yield
    except IntegrityError:
        raise
    except SQLAlchemyError as error:
        raise WorldError(
            f"the store does not answer: {str(error.__cause__ or error).splitlines()[0]}",
            hint="is the disk full? jobs go on; what cannot be recorded is not begun",
        ) from error
