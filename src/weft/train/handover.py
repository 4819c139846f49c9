"""The state on its way to newcomers, as the training thread sees it.

At the first step of an epoch with newcomers the members send, and the newcomers receive, beside the
computation (`weft.train.transfer`). Whoever waits for it stops waiting when the agent halts the
epoch: what has not come by then will not come.
"""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from torch import Tensor

from weft.agent.checkpoint.layout import TensorRecord
from weft.crash import passing
from weft.train.group import EpochGroups
from weft.train.state import StateBook
from weft.train.transfer import Receiving, Roles, Sending

STUCK_SECONDS: Final = 1.0


class Handover:
    """One transfer after the other, each of another epoch."""

    def __init__(self, book: StateBook, halted: Callable[[], bool]) -> None:
        self._book, self._halted = book, halted
        self._changing = frozenset(f"model/{name}" for name, _ in book.model.named_buffers())
        self._transfer: Sending | Receiving | None = None
        self._receiving: Receiving | None = None

    @property
    def receives(self) -> bool:
        """Whether this worker is a newcomer whose state is on its way."""
        return isinstance(self._transfer, Receiving)

    def begin(self, groups: EpochGroups, roles: Roles, committed: int) -> None:
        """Send, or receive, by this worker's replica."""
        if groups.replica in roles.donors:
            tensors, facts = self._book.tensors(), self._facts(committed)
            self._transfer = Sending(groups.state, roles, tensors, facts, self._changing)
        else:
            self._transfer = self._new_receiving(groups, roles)
        self._transfer.start()
        if groups.shard > 1 and self.receives:
            # A forward pass takes the shards away that the state is to go into.
            self._transfer.wait(self._halted)

    def arrived(self) -> bool:
        """Wait until the newcomer has all its tensors; false if that was given up."""
        return self._transfer is None or self._transfer.wait(self._halted)

    def finish(self) -> int | None:
        """Wait for the end; the step that a newcomer has received, None for all others."""
        transfer, self._transfer = self._transfer, None
        if transfer is None:
            return None
        transfer.join(self._halted)
        passing("handed-over")
        if not isinstance(transfer, Receiving):
            return None
        self._book.load_facts(transfer.facts["state"])
        return int(transfer.facts["committed"])

    def forget(self) -> None:
        """The step is over, or will be made again."""
        self._transfer = None

    def _new_receiving(self, groups: EpochGroups, roles: Roles) -> Receiving:
        """Not before an earlier one has ended, of an epoch that was cut: it may make room yet."""
        if self._receiving is not None:
            deadline = time.monotonic() + STUCK_SECONDS
            self._receiving.wait(lambda: time.monotonic() > deadline)
        self._receiving = Receiving(groups.state, roles, self._make_room, self._changing)
        return self._receiving

    def _facts(self, committed: int) -> dict[str, Any]:
        return {
            "committed": committed,
            "records": [asdict(record) for record in self._book.records()],
            "state": self._book.facts(),
        }

    def _make_room(self, facts: dict[str, Any]) -> dict[str, Tensor]:
        """Called by the receiving thread when it knows what will come."""
        self._book.allocate(_record(record) for record in facts["records"])
        return self._book.tensors()


def _record(told: dict[str, Any]) -> TensorRecord:
    shape, offsets, sizes = (tuple(told[name]) for name in ("shape", "offsets", "sizes"))
    return TensorRecord(told["name"], told["dtype"], shape, offsets, sizes)
