"""The state on its way to newcomers, as the training thread sees it.

At the first steps of an epoch with newcomers the members send, and the newcomers receive, beside
the computation (`weft.train.membership.transfer`). Before the sum of each such step all say how far
they are. Nobody waits for anyone in silence: whoever still moves bytes says so several times a
second, and one that has failed says that, so that all know at once. What may take long may take
long; what stands still is found by the same limits as ever.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from weft.crash import passing
from weft.model.errors import WorldError
from weft.train.groups.group import EpochGroups, Group
from weft.train.membership.transfer import Journey, Reach, Receiving, Sending
from weft.train.membership.units import Roles
from weft.train.state.book import StateBook
from weft.train.state.intake import Intake

STUCK_SECONDS: Final = 1.0
SAY_SECONDS: Final = 0.25
GRACE_SECONDS: Final = 0.25  # by which the first step may be longer, if then everything is there


class Handover:
    """One epoch's transfer after the other's."""

    def __init__(self, book: StateBook, halted: Callable[[], bool]) -> None:
        self._book, self._halted = book, halted
        self._changing = frozenset(f"model/{name}" for name, _ in book.model.named_buffers())
        self._transfer: Sending | Receiving | None = None
        self._journey: Journey | None = None
        self._receiving: Receiving | None = None
        self._moved_before = 0
        self._rolls = True  # until it was seen that a newcomer cannot follow this program
        self._began = self._told_seconds = 0.0

    @property
    def under_way(self) -> bool:
        """Whether this worker sends or receives beside the present step."""
        return self._transfer is not None

    @property
    def receives(self) -> bool:
        """Whether this worker is a newcomer whose state is on its way."""
        return isinstance(self._transfer, Receiving)

    @property
    def moved_bytes(self) -> int:
        """Since the process began: what grows is alive."""
        return self._moved_before + (self._transfer.moved_bytes if self._transfer else 0)

    @property
    def alive_seconds(self) -> float:
        """When bytes were moved last, here or by somebody who has said so."""
        transfer = self._transfer
        return max(transfer.moved_seconds, self._told_seconds) if transfer is not None else 0.0

    def begin(self, groups: EpochGroups, roles: Roles, committed: int, *, whole: bool) -> None:
        """Send, or receive, by this worker's replica, until all have agreed on how far it came."""
        self._await_the_last()
        if self._journey is None:
            self._journey = Journey()
        self._began = time.monotonic()
        if groups.replica in roles.donors:
            held = self._book.look()
            facts = {"committed": committed, "records": held.records, "state": held.facts}
            sending = Sending(groups.state, roles, held.tensors, facts, self._changing)
            sending.begin(self._journey, whole=whole or not self._rolls)
            self._transfer = sending
        else:
            self._transfer = self._receiving = Receiving(
                groups.state, roles, self._take_in, self._changing
            )
            self._journey.parts += 1
            self._transfer.begin()
            if groups.shard > 1:
                # A forward pass takes the shards away that the state is to go into.
                while not self._transfer.ended(SAY_SECONDS) and not self._halted():
                    continue

    def agreed(self, everyone: Group) -> int | None:
        """How far all have come, and the step that a newcomer has received when it is whole."""
        transfer, journey = self._transfer, self._journey
        assert transfer is not None
        assert journey is not None
        transfer.close(self._began + (GRACE_SECONDS if journey.parts == 1 else 0.0))
        reach = self._least(transfer, everyone)
        if reach is Reach.FAILED:
            self._rolls = self._rolls and not journey.rolled
            raise WorldError(str(transfer.failure or "a member could not hand over the state"))
        received = self._taken(transfer, reach)
        journey.rolled = reach is Reach.ROLLED
        self._end_part()
        if reach is Reach.WHOLE:
            self._journey = None
            passing("handed-over")
        return received

    @property
    def complete(self) -> bool:
        """Whether nothing is left to be handed over."""
        return self._journey is None

    def forget(self) -> None:
        """The epoch is broken: another one begins anew."""
        self._end_part()
        self._journey = None

    def _least(self, transfer: Sending | Receiving, everyone: Group) -> Reach:
        """What all have come to, once nobody is at it any more."""
        while True:
            if self._halted():
                raise WorldError("the epoch was given up while the state was sent")
            mine = transfer.reach() if transfer.ended(SAY_SECONDS) else Reach.MOVING
            if isinstance(transfer, Receiving) and mine is Reach.WHOLE and transfer.differs():
                transfer.failure = WorldError("the state has not come to what the donors have")
                mine = Reach.FAILED
            least = Reach(everyone.least(mine))
            if least is not Reach.MOVING:
                return least
            self._told_seconds = time.monotonic()

    def _taken(self, transfer: Sending | Receiving, reach: Reach) -> int | None:
        """The donors' step has begun without this worker, and their script may know it by number.

        What its body has changed since (groups of the optimizer, rates, what is frozen) comes now:
        the sum and the optimizer's step of all must be of the same.
        """
        changed = transfer.step_facts(self._book.step_facts())
        if not isinstance(transfer, Receiving):
            return None
        assert transfer.intake is not None
        transfer.intake.finish(changed)
        return int(transfer.facts["committed"]) if reach is Reach.WHOLE else None

    def _end_part(self) -> None:
        if self._transfer is not None:
            self._moved_before += self._transfer.moved_bytes
        self._transfer = None

    def _await_the_last(self) -> None:
        """One of an epoch that was cut may be about to write yet; one that was left may go on."""
        last = self._transfer or self._receiving
        deadline = time.monotonic() + STUCK_SECONDS
        if last is not None:
            last.close(0.0)
            while not last.idle() and time.monotonic() < deadline:
                last.ended(0.0)
                time.sleep(0.001)
        self._end_part()

    def _take_in(self, facts: dict[str, Any]) -> Intake:
        """Called by the receiving thread when it knows what will come."""
        intake = Intake(self._book, facts["records"], facts["state"])
        intake.make_room()
        return intake
