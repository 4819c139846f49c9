"""What is remembered of nodes and services outlives the daemon, and nothing else."""

import asyncio
from pathlib import Path

from tests.waiting import until_async
from weft.failure.breaker import Strike
from weft.failure.health import WELL, struck
from weft.local.record.book import Book
from weft.local.record.health import KEY, HealthRecord, recalled
from weft.local.record.store import Store
from weft.model.ids import JobId, TenantId

HIT = struck(WELL, "s3", Strike(1.0, JobId("anna/a"), TenantId("anna")))
TWICE = struck(HIT, "s3", Strike(2.0, JobId("ben/b"), TenantId("ben")))


def test_the_newest_value_is_on_record(tmp_path: Path) -> None:
    async def work() -> None:
        store = Store.at(tmp_path / "weft.db")
        book = Book(store, lambda _: None)
        record = HealthRecord(store, book)
        assert record.recalled is WELL
        for health in (WELL, HIT, TWICE):
            record.look(health)
        await until_async(lambda: recalled(store) == TWICE, "the newest value on record")
        await book.close()
        assert recalled(store) == TWICE
        store.close()

    asyncio.run(work())
    store = Store.at(tmp_path / "weft.db")
    assert recalled(store) == TWICE
    store.write_setting(KEY, "{}")
    assert recalled(store) is WELL
    store.close()
