"""Changes of a run while it trains: another width, other cores, another pace.

A resize takes a while, in which the run trains on as before; then it stands still for a moment and
goes on with its new seats. What comes between, its end or another resize, calls it off.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from weft.brain.event import (
    Event,
    Fed,
    InstructionDone,
    InstructionRefused,
    Phase,
    Verb,
)
from weft.brain.instruction import Feed, Resize
from weft.model.ids import JobId
from weft.model.placement import Placement
from weft.sim.agenda import Agenda
from weft.sim.chance import Chance
from weft.sim.costs import Costs
from weft.sim.ground import Ground
from weft.sim.record import Record
from weft.sim.run import Run
from weft.sim.timetable import Timetable
from weft.sim.turns import Turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Carries them out on the runs of one world.

    `unfit` says why the world will not do a resize, `vacate` frees seats, `tell` reports.
    """

    agenda: Agenda
    runs: Mapping[JobId, Run]
    ground: Ground
    turns: Turns
    timetable: Timetable
    costs: Costs
    chance: Chance
    record: Record
    unfit: Callable[[Run, Placement], str]
    vacate: Callable[[Run, Collection[int]], None]
    tell: Callable[[Event], None]

    def resize(self, resize: Resize) -> None:
        """Newer than what was done before: seats that are added are taken at once."""
        run = self._trains(resize)
        if run is None:
            return  # its end is told, or will be
        if resize.serial <= run.serial:
            if resize.serial == run.serial and run.resize_answer is not None:
                self.tell(run.resize_answer)
            return
        self.call_off(run)
        run.serial, run.resize_answer = resize.serial, None
        target = resize.assignment.placement
        why = self.unfit(run, target)
        if why:
            self._answer(run, why)
            return
        self.ground.take(run, run.placement.added_by(target))
        run.target, run.next_seat = target, max(run.next_seat, max(target.numbers) + 1)
        delay = self.costs.resize.at(self.chance.uniform("resize", run.job.id, run.serial))
        self.timetable.change(run, delay)

    def resized(self, what: tuple[Run, int]) -> None:
        """The new width begins, unless something came between."""
        run, serial = what
        target = run.target
        if run.serial != serial or target is None or self.runs.get(run.job.id) is not run:
            return
        if run.phase is not Phase.RUNNING:
            return
        self.vacate(run, run.placement.numbers - target.numbers)
        run.target = None
        self.record.jobs[run.job.id].resizes += 1
        paused = self.resume_on(run, target)
        self._answer(run, paused_seconds=paused)

    def feed(self, feed: Feed) -> None:
        """Other cores and memory from now on; training does not stop for it."""
        run = self._trains(feed)
        if run is None or feed.serial < run.fed.serial:
            return
        if feed.serial > run.fed.serial and not run.broken:
            run.fed = Fed(feed.cores, feed.memory_gib, feed.serial)
            self.pace_anew(run)
        who = (self.agenda.now, run.job.id, run.epoch, Verb.FEED)
        self.tell(InstructionDone(*who, serial=feed.serial))

    def resume_on(self, run: Run, placement: Placement) -> float:
        """Another placement, after a pause; how long that is."""
        before = self.turns.beside(run)
        pause = self.costs.resize_pause.at(
            self.chance.uniform("resize pause", run.job.id, run.serial)
        )
        self._go_on(run, placement, pause)
        self.pace_anew(*dict.fromkeys((*before, *self.turns.beside(run))))
        return pause

    def pace_anew(self, *runs: Run) -> None:
        """They go on where they are, at another pace; a pause that one is in is not cut short."""
        for run in runs:
            self._go_on(run, run.placement, max(run.mark - self.agenda.now, 0.0))

    def pause(self, run: Run, seconds: float) -> None:
        """It stands still for a while; what was to be saved meanwhile is saved when it goes on."""
        self._go_on(run, run.placement, max(run.mark - self.agenda.now, 0.0) + seconds)
        if run.saves_between(self.agenda.now, run.mark):
            run.saved = run.done

    def pace_company_anew(self, run: Run) -> None:
        """It begins or ends to train beside others: they go on at another pace."""
        self.pace_anew(*self.turns.beside(run))

    def charged(self) -> Iterator[Run]:
        """Each that trains and does not end now, once it has lost the overheads of its party."""
        now = self.agenda.now
        for run in list(self.runs.values()):
            if run.phase is not Phase.RUNNING or run.finish_at <= now:
                continue
            party = (run, *self.turns.others(run))
            lost = sum(self.costs.overhead_seconds(one.job) for one in party)
            useful = max(now - run.mark - lost, 0.0)
            run.done = min(run.done + useful * run.speed, run.job.work.amount)
            run.mark = now
            self.timetable.pace(run)
            yield run

    def call_off(self, run: Run) -> None:
        """A resize under way does not take place: what was taken for it is free again."""
        if run.target is None:
            return
        self.ground.free(run, run.placement.added_by(run.target))
        run.target = None

    def _go_on(self, run: Run, placement: Placement, pause_seconds: float) -> None:
        """From where it is, there, after so long."""
        run.take_placement(placement, self.agenda.now)
        run.speed = self.turns.speed(run)
        run.mark += pause_seconds
        run.paced += pause_seconds
        self.timetable.pace(run)

    def _answer(self, run: Run, why: str = "", *, paused_seconds: float | None = None) -> None:
        who = (self.agenda.now, run.job.id, run.epoch, Verb.RESIZE)
        if why:
            run.resize_answer = InstructionRefused(*who, why, run.serial)
        else:
            run.resize_answer = InstructionDone(
                *who, serial=run.serial, paused_seconds=paused_seconds
            )
        self.tell(run.resize_answer)

    def _trains(self, change: Resize | Feed) -> Run | None:
        """The run that is to change, if it trains."""
        run = self.runs.get(change.job)
        trains = run is not None and run.epoch == change.epoch and run.phase is Phase.RUNNING
        return run if trains else None
