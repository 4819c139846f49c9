"""Turns of the training loop: asked for where a stage begins, given back where it ends.

The borders are those at which the stages of a step are measured (`weft.train.stages`), so a turn
costs a look there and nothing elsewhere. A worker alone in its job asks for the GPU before the
forward pass of each micro-batch and gives it back behind the backward pass.
A gang asks once in a step for GPU and network together, before its first forward pass: all of its
workers stand outside of any collective there. The GPU it gives back when the last backward pass is
over, the network when the vote is; what the optimizer does behind that is short, and needs no turn.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from weft.agent.messages import Accompany, Members, Names, Turn
from weft.agent.messages.turns import LOOP
from weft.train.company.fence import Fence
from weft.train.company.lease_line import LeaseLine
from weft.train.company.reading import ReadingTurns
from weft.train.company.usual import MOST_BOUND_SECONDS, Usual
from weft.train.membership.contact import Contact
from weft.train.stages import Resource, Stage, Stages

PART_OF_HANG: Final = 0.25  # a wait is to be over long before anybody takes it for a hang
BEGINS: Final = frozenset({Stage.H2D, Stage.FORWARD})
ENDS: Final = frozenset({Stage.IDLE, Stage.CKPT_BLOCK})
NOBODY: Final = Accompany("")
ALONE: Final[Names] = (Resource.GPU.value,)
GANG: Final[Names] = (Resource.GPU.value, Resource.NETWORK.value)


@dataclass(frozen=True, slots=True)
class Moment:
    """Where the loop is: the same on all members of an epoch, but for `last`."""

    epoch: int
    members: Members
    last: bool

    @property
    def is_gang(self) -> bool:
        return len(self.members) > 1


class Turns:
    """Of one training loop. `company` may be changed by any thread; all else is the loop's."""

    def __init__(
        self,
        contact: Contact,
        stages: Stages,
        moment: Callable[[], Moment | None],
        fence: Fence,
        given_up: Callable[[], bool],
        *,
        hang_seconds: float,
    ) -> None:
        self.company = NOBODY
        self.reading = ReadingTurns(contact, self._company_alone)
        self.asked = self.breaches = 0
        self._bound_seconds = min(MOST_BOUND_SECONDS, PART_OF_HANG * hang_seconds)
        self._stages, self._moment, self._fence, self._given_up = stages, moment, fence, given_up
        self._line = LeaseLine(contact, LOOP)
        self._usual = Usual()
        self._in_gang = True  # as long as nothing is known
        self._held: Names = ()
        self._began = 0.0

    def accompany(self, order: Accompany) -> None:
        """This is the company from the next border on; from any thread."""
        self.company = order
        if order.folder:
            self._stages.border = self.border

    def border(self, stage: Stage) -> None:
        """The loop is about to enter this stage."""
        if stage in BEGINS:
            if not self._held:
                self._begin(self._moment())
        elif stage in ENDS:
            self._give_back(self._held)
        elif self._held and stage in (Stage.COMM_EXPOSED, Stage.DATA_WAIT):
            self._pause(stage, self._moment())

    @contextmanager
    def moving(self) -> Iterator[None]:
        """A batch is on its way to the device."""
        self._stages.enter(Stage.H2D)
        try:
            yield
        finally:
            self._stages.enter(Stage.FORWARD)

    def report(self) -> dict[str, int]:
        """Turns since the last report, if there were any, and breaches of this job so far."""
        asked, self.asked = self.asked, 0
        return {"turns": asked, "breaches": self.breaches} if asked else {}

    def _begin(self, moment: Moment | None) -> None:
        company = self.company
        if moment is None:  # a step that only warms up belongs to no cycle
            return
        self._in_gang = moment.is_gang
        if not company.folder:
            self._part()
            return
        if moment.is_gang or self._usual.is_worth_a_turn:
            self._stages.enter(Stage.TOKEN_WAIT)
            self._fence.wait()
            self._ask(company, moment)
        self._held = GANG if moment.is_gang else ALONE
        self._began = time.monotonic()

    def _part(self) -> None:
        self._line.close()
        self._stages.border = None
        if self.company.folder:  # meanwhile there is company again
            self._stages.border = self.border

    def _company_alone(self) -> Accompany:
        """The company of a job that has no other worker; a gang's reads without turns."""
        return NOBODY if self._in_gang else self.company

    def _ask(self, company: Accompany, moment: Moment) -> None:
        turn = Turn(
            moment.epoch,
            moment.members,
            company.gpus,
            GANG if moment.is_gang else ALONE,
            self._bound_seconds,
            self._usual.term_seconds,
        )
        granted = self._line.ask(company.folder, turn, self._given_up)
        if granted is not None:
            self.asked += 1
            self.breaches = granted.breaches

    def _pause(self, stage: Stage, moment: Moment | None) -> None:
        """A gang keeps its turn up to its last backward pass, and one alone up to each.

        The next one is on its way while the optimizer steps.
        """
        if (
            moment is not None
            and stage is Stage.COMM_EXPOSED
            and (moment.last or not self._in_gang)
        ):
            self._give_back(ALONE)
        elif stage is Stage.DATA_WAIT and not self._in_gang:
            self._give_back(self._held)

    def _give_back(self, kinds: Names) -> None:
        back = tuple(kind for kind in kinds if kind in self._held)
        if not back:
            return
        self._held = tuple(kind for kind in self._held if kind not in back)
        self._fence.behind(lambda: self._gave_back(back, keep=not self._in_gang))

    def _gave_back(self, kinds: Names, *, keep: bool) -> None:
        """A gang cannot keep its turn: its workers would not all hear that it is wanted."""
        if Resource.GPU.value in kinds:
            self._usual.took(time.monotonic() - self._began)
        self._line.give_back(kinds, keep=keep)
