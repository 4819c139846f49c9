"""A worker's part in saving: its snapshot, a copy of it where one is needed, and telling of both.

Only replica 0 saves, because the others hold the same. In a sharded replica each member saves its
own part; where there is no other replica, a neighbour keeps a copy of it. Slots lie in memory, or
where a machine that is not the agent's can be read from: there a slot counts when it was flushed,
which is waited for beside the training.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from weft.agent.messages import Saved
from weft.crash import passing
from weft.train.contact import Contact
from weft.train.group import EpochGroups
from weft.train.peers import PeerCopies
from weft.train.snapshot import Snapshots
from weft.train.state import StateBook

SHARED_MEMORY: Final = Path("/dev/shm")


class Saving:
    """The slots of one worker, and its neighbour's copies."""

    def __init__(self, contact: Contact, book: StateBook, tell: Callable[[Saved], None]) -> None:
        self._folder, self._tell, self._book = contact.slots, tell, book
        self._ready = False
        self._copies: PeerCopies | None = None
        self._flushing: threading.Thread | None = None
        self._in_memory = contact.slots.is_relative_to(SHARED_MEMORY)
        self._snapshots = Snapshots(
            contact.slots, contact.worker, book, job=contact.job, incarnation=contact.incarnation
        )

    def prepare(self, groups: EpochGroups) -> None:
        """Touch the memory of the slots before it is needed."""
        if not self._ready and groups.replica == 0:
            self._ready = True
            self._snapshots.prepare()

    def save(self, groups: EpochGroups, step: int, cursor: int) -> None:
        """Put the state after that step into shared memory; the agent does the rest."""
        if groups.replica != 0:
            return
        passing("before-snapshot")
        taken = self._snapshots.take(step, cursor, epoch=groups.epoch)
        passing("snapshot-taken")
        left = self._book.progress.left
        moment = (groups.epoch, step, cursor)
        if taken is not None:
            part, path = groups.place % groups.shard, str(taken.path)
            self._tell_of(Saved(*moment, part, groups.shard, path, taken.seconds, left))
        self._copy_to_peer(groups, moment, taken.path if taken else None)

    def wait(self) -> None:
        """Until no copy is under way any more."""
        if self._copies is not None:
            self._copies.wait()
        if self._flushing is not None:
            self._flushing.join()

    def _tell_of(self, saved: Saved) -> None:
        """At once, or when another machine can read it."""
        if self._in_memory:
            self._tell(saved)
            return
        if self._flushing is not None:
            self._flushing.join()
        self._flushing = threading.Thread(target=self._flush, args=(saved,), daemon=True)
        self._flushing.start()

    def _flush(self, saved: Saved) -> None:
        slot = os.open(saved.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.fsync(slot)
        finally:
            os.close(slot)
        self._tell(saved)

    def _copy_to_peer(
        self, groups: EpochGroups, moment: tuple[int, int, int], slot: Path | None
    ) -> None:
        peers = groups.peers
        if peers.size == 1:
            return
        before = (peers.rank - 1) % peers.size
        if self._copies is None or self._copies.epoch != groups.epoch:
            origin = groups.members[before]
            self._copies = PeerCopies(peers, self._folder, origin, epoch=groups.epoch)

        left = self._book.progress.left

        def arrived(path: Path) -> None:
            self._tell_of(Saved(*moment, before, peers.size, str(path), 0.0, left))

        self._copies.exchange(slot, arrived)
