"""What is remembered of incarnations that are over, or that never began.

Messages get lost and come twice, so whoever asks again must hear the same answer again, and an
epoch that was stopped before it started must never start (architecture: epochs fence).
"""

from weft.brain.event import InstructionDone, InstructionRefused, JobFailed, JobFinished
from weft.model.ids import JobId

Ending = InstructionDone | JobFinished | JobFailed


class Past:
    """By job: its checkpoint, its last end and its last refusal."""

    __slots__ = ("_ended", "_kept", "_refused")

    def __init__(self) -> None:
        self._kept: dict[JobId, float] = {}
        self._ended: dict[JobId, Ending] = {}
        self._refused: dict[JobId, InstructionRefused] = {}

    def keep(self, job: JobId, work: float) -> None:
        self._kept[job] = work

    def kept(self, job: JobId) -> float:
        """The work that the next incarnation goes on from."""
        return self._kept.get(job, 0.0)

    def end(self, event: Ending) -> None:
        self._ended[event.job] = event

    def refuse(self, event: InstructionRefused) -> None:
        self._refused[event.job] = event

    def end_of(self, job: JobId, epoch: int) -> Ending | None:
        ended = self._ended.get(job)
        return ended if ended is not None and ended.epoch == epoch else None

    def answer_to_start(self, job: JobId, epoch: int) -> Ending | InstructionRefused | None:
        """What was said when this start, or a later one, came before."""
        for said in (self._ended.get(job), self._refused.get(job)):
            if said is not None and said.epoch >= epoch:
                return said
        return None

    def fence(self, answer: InstructionDone) -> None:
        """An epoch that is not there has been stopped: nothing up to it starts any more."""
        ended = self._ended.get(answer.job)
        if ended is None or ended.epoch < answer.epoch:
            self._ended[answer.job] = answer
