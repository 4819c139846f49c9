"""A worker's part in saving: its snapshot, a copy of it where one is needed, and telling of both.

Only replica 0 saves, because the others hold the same. In a sharded replica each member saves its
own part; where there is no other replica, a neighbour keeps a copy of it.
"""

from collections.abc import Callable
from pathlib import Path

from weft.agent.messages import Saved
from weft.crash import passing
from weft.train.contact import Contact
from weft.train.group import EpochGroups
from weft.train.peers import PeerCopies
from weft.train.snapshot import Snapshots
from weft.train.state import StateBook


class Saving:
    """The slots of one worker, and its neighbour's copies."""

    def __init__(self, contact: Contact, book: StateBook, tell: Callable[[Saved], None]) -> None:
        self._folder, self._tell = contact.slots, tell
        self._ready = False
        self._copies: PeerCopies | None = None
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
        moment = (groups.epoch, step, cursor)
        if taken is not None:
            part = groups.place % groups.shard
            self._tell(Saved(*moment, part, groups.shard, str(taken.path), taken.seconds))
        self._copy_to_peer(groups, moment, taken.path if taken else None)

    def wait(self) -> None:
        """Until no copy is under way any more."""
        if self._copies is not None:
            self._copies.wait()

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

        def arrived(path: Path) -> None:
            self._tell(Saved(*moment, before, peers.size, str(path), 0.0))

        self._copies.exchange(slot, arrived)
