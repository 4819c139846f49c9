"""Trials that the brain has begun, written down as jobs so that all that holds for jobs holds.

A brain that is built anew knows of none: those of an earlier daemon are cancelled.
"""

import secrets

from weft.brain.instruction import Start
from weft.local.folders import Folders
from weft.local.reconcile.trial import trial_entry
from weft.local.record.book import Book
from weft.local.record.entry import Entry, Happening
from weft.model.ids import JobId
from weft.model.trial import is_trial, tried_by


class Trials:
    """Those of this term, each for so many seconds."""

    def __init__(self, book: Book, folders: Folders, seconds: float) -> None:
        self._book, self._folders, self._seconds = book, folders, seconds
        self._uids: set[str] = set()

    def wants(self, job: JobId) -> bool:
        """Whether it is one that nobody has written down yet."""
        return is_trial(job) and self._book.named(job) is None

    async def write_down(self, start: Start, now: float) -> None:
        gang = self._book.named(tried_by(start.job))
        if gang is None or not self.wants(start.job):
            return
        entry = trial_entry(gang, secrets.token_hex(8), now)
        self._uids.add(entry.uid)
        self._folders.make_job(entry.uid, entry.owner)
        await self._book.add(entry, Happening(now, "Submitted", f"a trial of {gang.name}"))

    def as_meant(self, entry: Entry) -> Entry:
        """A stray one is cancelled."""
        stray = is_trial(entry.id) and entry.uid not in self._uids
        return entry.with_changes(cancelled=True) if stray else entry

    def left_seconds(self, entry: Entry, now: float) -> float | None:
        """Until it has passed; None for jobs that are no trials."""
        if not is_trial(entry.id):
            return None
        began = entry.started_at
        return self._seconds if began is None else began + self._seconds - now
