"""When something comes of a run by itself: a change is done, it ends, it is measured.

All of it is put down anew from what the run itself knows, so a run that was found in flight is
awaited as one that was seen from its beginning.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from weft.brain.event import Phase
from weft.sim.agenda import Agenda, Turn
from weft.sim.run import Run
from weft.sim.telling import Telling

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Happenings:
    """What is to happen then; `fails_at` says when a run fails of itself, if it does.

    Ends and measurements come with the version of the pace that they were foreseen for, a resize
    with its serial.
    """

    started: Callable[[Run], None]
    stopped: Callable[[Run], None]
    resized: Callable[[tuple[Run, int]], None]
    finish: Callable[[tuple[Run, int]], None]
    fail: Callable[[tuple[Run, int]], None]
    measure: Callable[[tuple[Run, int]], None]
    fails_at: Callable[[Run], float | None]


class Timetable:
    """Puts what is to come of runs on the agenda."""

    def __init__(self, agenda: Agenda, telling: Telling, happen: Happenings) -> None:
        self._agenda = agenda
        self._telling = telling
        self._happen = happen

    def pace(self, run: Run) -> None:
        """Its pace has changed: when it ends and when it is measured, if nothing else happens.

        One that has no speed here fails at once.
        """
        run.version += 1
        run.foreseen, run.news = self._agenda.now, run.version
        if run.speed <= 0.0:
            what = (run, run.version)
            run.end_order = self._put(self._agenda.now, Turn.JOB, self._happen.fail, what)
            return
        self._end(run)
        self.news(run)

    def change(self, run: Run, after_seconds: float) -> None:
        """A start, a stop or a resize is under way, and takes so long."""
        run.ready_at = self._agenda.now + after_seconds
        self._change(run)

    def news(self, run: Run) -> None:
        """Some time after its pace has changed it is measured, and then now and again."""
        if run.speed <= 0 or not self._telling.has_news_of(run):
            return
        at = max(run.foreseen, run.mark) + self._telling.after_seconds
        if run.news > run.version:
            at = run.told + self._telling.every(run)
        what = (run, run.version)
        run.news_order = self._put(at, Turn.MESSAGE, self._happen.measure, what)

    def take_up(self, runs: Iterable[Run]) -> None:
        """Runs that were found in flight: all is put down in the order in which it was before."""
        awaited: list[tuple[int, Callable[[Run], None], Run]] = []
        for run in runs:
            awaited.append((run.change_order, self._change, run))
            if run.phase is Phase.RUNNING:
                awaited.append((run.end_order, self._end, run))
                awaited.append((run.news_order, self.news, run))
        for _, put_down, run in sorted(awaited, key=lambda each: each[0]):
            put_down(run)

    def _change(self, run: Run) -> None:
        happen, turn = self._happen, Turn.MESSAGE
        if run.phase is Phase.STARTING:
            run.change_order = self._put(run.ready_at, turn, happen.started, run)
        elif run.phase is Phase.STOPPING:
            run.change_order = self._put(run.ready_at, turn, happen.stopped, run)
        elif run.target is not None:
            what = (run, run.serial)
            run.change_order = self._put(run.ready_at, turn, happen.resized, what)

    def _end(self, run: Run) -> None:
        """Done, or failed before."""
        left = max(run.job.work.amount - run.done, 0.0)
        run.finish_at = float("inf")
        if run.speed > 0:
            run.finish_at = max(run.foreseen, run.mark) + left / run.speed
        fails_at = self._happen.fails_at(run)
        at, end = run.finish_at, self._happen.finish
        if fails_at is not None:
            at, end = fails_at, self._happen.fail
        elif at == float("inf"):
            return
        run.end_order = self._put(at, Turn.JOB, end, (run, run.version))

    def _put(self, at: float, turn: Turn, happen: Callable[[T], None], what: T) -> int:
        """What should have happened by now happens at once."""
        return self._agenda.put(max(at, self._agenda.now), turn, happen, what)
