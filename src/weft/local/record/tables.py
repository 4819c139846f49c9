"""The tables of the store, for any database that SQLAlchemy knows; a machine's is SQLite.

Nothing here belongs to one kind of database: what is structured is JSON, times are seconds since
1970, and a name is kept from being used twice by an index over the jobs that are not over. The
version of the schema stands in `settings`; a change to a table is a step in `MIGRATIONS`.
"""

from collections.abc import Callable
from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    insert,
    inspect,
    select,
    text,
    update,
)

from weft.model.errors import WorldError

METADATA: Final = MetaData()
VERSION_KEY: Final = "schema"

JOBS: Final = Table(
    "jobs",
    METADATA,
    Column("uid", String(32), primary_key=True),
    Column("user", String(64), nullable=False),
    Column("owner_uid", BigInteger, nullable=False),
    Column("owner_gid", BigInteger, nullable=False),
    Column("name", String(63), nullable=False),
    Column("spec", JSON, nullable=False),
    Column("origin", JSON, nullable=False),
    Column("state", String(16), nullable=False),
    Column("active", Boolean, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("cancelled", Boolean, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("serial", Integer, nullable=False),
    Column("seats", JSON, nullable=False),
    Column("target", JSON, nullable=False),
    Column("target_serial", Integer, nullable=False),
    Column("top_seat", Integer, nullable=False),
    Column("party", String(200), nullable=False, server_default=""),
    Column("plan", Text, nullable=False, server_default=""),
    Column("target_plan", Text, nullable=False, server_default=""),
    Column("offers", JSON, nullable=False, server_default="[]"),
    Column("agent", JSON(none_as_null=True)),
    Column("end", JSON(none_as_null=True)),
    Column("progress", JSON, nullable=False),
    Column("ranks", JSON, nullable=False),
    Column("work_saved", Double, nullable=False),
    Column("past", JSON, nullable=False),
    Column("reasons", JSON, nullable=False),
    Column("message", Text, nullable=False),
    Column("exit_code", Integer),
    Column("submitted_at", Double, nullable=False),
    Column("waiting_since", Double),
    Column("started_at", Double),
    Column("stopping_since", Double),
    Column("ended_at", Double),
)
Index("jobs_by_user", JOBS.c.user, JOBS.c.submitted_at)
Index("jobs_by_time", JOBS.c.submitted_at)
Index(
    "one_active_job_of_a_name",
    JOBS.c.user,
    JOBS.c.name,
    unique=True,
    sqlite_where=JOBS.c.active,
    postgresql_where=JOBS.c.active,
)

EVENTS: Final = Table(
    "events",
    METADATA,
    Column(
        "id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True
    ),
    Column("job", ForeignKey("jobs.uid", ondelete="CASCADE"), nullable=False),
    Column("at", Double, nullable=False),
    Column("what", String(40), nullable=False),
    Column("message", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("warning", Boolean, nullable=False),
    Column("failure", JSON(none_as_null=True)),
)
Index("events_by_job", EVENTS.c.job, EVENTS.c.id)

SETTINGS: Final = Table(
    "settings",
    METADATA,
    Column("key", String(40), primary_key=True),
    Column("value", Text, nullable=False),
)

USAGE: Final = Table(
    "usage",
    METADATA,
    Column("user", String(64), primary_key=True),
    Column("got", Double, nullable=False),
    Column("owed", Double, nullable=False),
)

Migration = Callable[[Connection], None]


def _add_failures(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE events ADD COLUMN failure JSON"))


def _add_party(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE jobs ADD COLUMN party VARCHAR(200) DEFAULT '' NOT NULL"))


def _add_plans(connection: Connection) -> None:
    for column in ("plan", "target_plan"):
        connection.execute(text(f"ALTER TABLE jobs ADD COLUMN {column} TEXT DEFAULT '' NOT NULL"))


def _add_offers(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE jobs ADD COLUMN offers JSON DEFAULT '[]' NOT NULL"))


# The step at index n brings a schema of version n + 1 to n + 2.
MIGRATIONS: Final[tuple[Migration, ...]] = (
    USAGE.create,
    _add_failures,
    _add_party,
    _add_plans,
    _add_offers,
)


def bring_up_to_date(connection: Connection, migrations: tuple[Migration, ...] = MIGRATIONS) -> int:
    """Make the tables, or change them step by step to what this program knows; their version."""
    newest = len(migrations) + 1
    if not inspect(connection).has_table(SETTINGS.name):
        METADATA.create_all(connection)
        connection.execute(insert(SETTINGS).values(key=VERSION_KEY, value=str(newest)))
        return newest
    found = int(
        connection.execute(
            select(SETTINGS.c.value).where(SETTINGS.c.key == VERSION_KEY)
        ).scalar_one()
    )
    if found > newest:
        raise WorldError(
            f"the store is of version {found}, this program knows {newest}",
            hint="a newer Weft has used this folder: install that one, or choose another folder",
        )
    for step in migrations[found - 1 :]:
        step(connection)
    connection.execute(
        update(SETTINGS).where(SETTINGS.c.key == VERSION_KEY).values(value=str(newest))
    )
    return newest
