"""What is remembered of nodes and services, on record: blame and breakers outlive the daemon.

It is one value that is replaced when it changes, so whoever looks after each event sees at once
whether there is something to write; of several changes in a row the last one is written.
"""

import asyncio
import json
import logging
from typing import Final

from weft.failure.health import WELL, Health
from weft.local.record.book import Book
from weft.local.record.store import Store
from weft.model.errors import WorldError

log = logging.getLogger(__name__)

KEY: Final = "health"


class HealthRecord:
    """Keeps the newest value on disk."""

    def __init__(self, store: Store, book: Book) -> None:
        self._book = book
        self._newest = self._kept = recalled(store)
        self._writing: asyncio.Task[None] | None = None

    @property
    def recalled(self) -> Health:
        """As an earlier daemon left it."""
        return self._kept

    def look(self, health: Health) -> None:
        """Have it written, if it has changed."""
        self._newest = health
        idle = self._writing is None or self._writing.done()
        if health is not self._kept and idle:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        while self._newest is not self._kept:
            health = self._newest
            try:
                await self._book.write_setting(KEY, json.dumps(health.told()))
            except WorldError as error:  # the next event tries again
                log.warning("what is known of nodes and services is not on record: %s", error)
                return
            self._kept = health


def recalled(store: Store) -> Health:
    """What is on record; nothing where that is of another version."""
    text = store.find_setting(KEY)
    try:
        return WELL if text is None else Health.read(json.loads(text))
    except (ValueError, KeyError, TypeError):
        log.warning("what is on record of nodes and services cannot be read, and is begun anew")
        return WELL
