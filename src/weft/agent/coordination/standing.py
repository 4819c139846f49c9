"""How a coordinator stands, for whoever looks at it: its parts, by the words of the job."""

from weft.agent.coordination.approach import Approach, Unreached
from weft.agent.coordination.epochs import Change, Epochs, Phase
from weft.agent.coordination.roster import Roster
from weft.agent.coordination.turnover import Turnover
from weft.agent.coordination.worker import Worker
from weft.agent.messages import Members


class Standing:
    """What is told; all of it is kept by one of the parts."""

    _roster: Roster
    _epochs: Epochs
    _sizing: Approach
    _plans: Turnover

    @property
    def workers(self) -> dict[int, Worker]:
        """All that were ever started."""
        return self._roster.workers

    @property
    def unit(self) -> int:
        """Workers that hold one model together, of those that are started now."""
        return self._roster.unit

    @property
    def plans(self) -> Turnover:
        """The plan of the job, and the one that is to follow."""
        return self._plans

    @property
    def phase(self) -> Phase:
        return self._epochs.phase

    @property
    def epoch(self) -> int:
        """The present one."""
        return self._epochs.number

    @property
    def latest_epoch(self) -> int:
        """The last one that was begun or prepared."""
        return self._epochs.latest

    @property
    def next_worker(self) -> int:
        """The number of the next that is started."""
        return self._roster.next_number

    @property
    def members(self) -> Members:
        return self._epochs.members

    @property
    def change(self) -> Change | None:
        return self._epochs.change

    @property
    def resizes(self) -> int:
        return self._epochs.switches

    @property
    def unreached(self) -> Unreached | None:
        """The width that was ordered last, if it cannot be had."""
        return self._sizing.unreached

    @property
    def halted_why(self) -> str:
        """What halted an epoch last."""
        return self._epochs.halted_why
