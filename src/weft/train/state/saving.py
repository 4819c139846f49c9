"""A worker's part in saving: its snapshot, a copy of it where one is needed, and telling of both.

Which part of the state that is, is told in `weft.train.state.writing`. Where there is no replica
beside a sharded one, a neighbour keeps a copy of each part.
"""

from collections.abc import Callable
from pathlib import Path

from weft.agent.messages import Members, Saved
from weft.crash import passing
from weft.train.groups.group import EpochGroups
from weft.train.membership.contact import Contact
from weft.train.state.book import StateBook
from weft.train.state.peers import PeerCopies
from weft.train.state.snapshot import Snapshots
from weft.train.state.writing import Part, part_of


class Saving:
    """The slots of one worker, and its neighbour's copies."""

    def __init__(self, contact: Contact, book: StateBook, tell: Callable[[Saved], None]) -> None:
        self._folder, self._tell, self._book = contact.slots, tell, book
        self._worker = contact.worker
        self._ready: Part | None = None
        self._copies: PeerCopies | None = None
        self._snapshots = Snapshots(
            contact.slots, contact.worker, book, job=contact.job, incarnation=contact.incarnation
        )

    def prepare(self, groups: EpochGroups, sharers: Members) -> None:
        """Touch the memory of the slots before it is needed."""
        part = part_of(groups, self._worker, sharers)
        if part not in (None, self._ready):
            self._ready = part
            self._snapshots.prepare(_cut(groups, part))

    def save(self, groups: EpochGroups, sharers: Members, step: int, cursor: int) -> None:
        """Put the state after that step into shared memory; the agent does the rest."""
        part = part_of(groups, self._worker, sharers)
        if part is None:
            return
        passing("before-snapshot")
        taken = self._snapshots.take(step, cursor, epoch=groups.epoch, part=_cut(groups, part))
        passing("snapshot-taken")
        left = self._book.progress.left
        moment = (groups.epoch, step, cursor)
        if taken is not None:
            self._tell(Saved(*moment, *part, str(taken.path), taken.seconds, left))
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

        left = self._book.progress.left

        def arrived(path: Path) -> None:
            self._tell(Saved(*moment, before, peers.size, str(path), 0.0, left))

        self._copies.exchange(slot, arrived)


def _cut(groups: EpochGroups, part: Part | None) -> Part:
    """How this worker's state is cut: a member of a sharded replica saves all that it holds."""
    return part if part is not None and groups.shard == 1 else (0, 1)
