"""What the brain learns of a job while it trains: its curve, and how much work it has left.

A speed that was measured is a fact of its width, so points are kept by width and spread and made
into a curve with an interval (`perf`). Work that nobody stated is foretold from the loss, or from
what the same tenant's program has needed before. Both are foretold again at each report, and what
was foretold is scored against what came: an interval that does not cover is worse than none.

Before its first report a job is like the earlier runs of its program; where there are none, it is
like what has finished in this cluster, or somewhat better.

A job whose curve is unknown runs as wide as idle GPUs allow and is then taken down by halves, each
long enough to be measured, until its curve is known at `EXPLORED_WIDTHS` widths (CoDDL).
"""

from dataclasses import dataclass, field, replace
from math import isfinite

import numpy as np

from weft.brain.event import JobMeasured
from weft.brain.learn import plans
from weft.brain.learn.reference import reference_speed
from weft.brain.learn.stages import LATEST as LATEST_STAGES
from weft.brain.learn.stages import StageHistory, recall
from weft.brain.state.brain_state import BrainState
from weft.brain.state.menubook import is_learnt, listed
from weft.model.request import JobRequest
from weft.model.state import State
from weft.perf.calibration import Calibration
from weft.perf.evidence import Evidence
from weft.perf.history import History
from weft.perf.loss import NO_LOSSES, Goal, Losses, Target
from weft.perf.point import Point
from weft.perf.precedent import LATEST as LATEST_TOTALS
from weft.perf.predictability import PREDICTABLE_AFTER, check_is_due, checked
from weft.perf.prior import FREE
from weft.perf.recalled import LATEST as LATEST_CURVES
from weft.perf.recalled import Recalled, Run
from weft.perf.remaining import total_work
from weft.perf.smooth import losses_seen
from weft.perf.total import Total

EXPLORED_WIDTHS = 3
MOST_POINTS = 16
A_MOMENT = 1e-3
NOTABLE = 0.05
"""A change of a foretold speed by less than this share is no news."""

STIRRED, SURER = 0.005, 4.0
"""A curve is drawn anew when a point moves by this share or has been measured so much longer."""


@dataclass(slots=True)
class Lesson:
    """What has been measured of one job: speeds by (GPUs, nodes), and losses by work done."""

    points: tuple[Point, ...] = ()
    losses: Losses = NO_LOSSES
    stated: float | None = None
    checked_at: float = 0.0
    heard: JobMeasured | None = None
    fitted: dict[tuple[int, int, float], Point] = field(default_factory=dict)

    def is_repeated(self, event: JobMeasured) -> bool:
        """A message that comes twice was measured once."""
        repeated = self.heard is not None and replace(event, at=self.heard.at) == self.heard
        self.heard = event
        return repeated

    def see_speed(self, point: Point) -> bool:
        """Measured again at the same width, spread and cores: the mean, by time.

        Whether that says anything new: a mean that hardly moves foretells what it foretold.
        """
        others, moved = [], True
        for known in self.points:
            if _setting(known) == _setting(point):
                point = _mean(known, point)
                moved = self._has_moved(known, point)
            else:
                others.append(known)
        self.points = (*others[-MOST_POINTS:], point)
        if moved:
            self.fitted = {_setting(one): one for one in self.points}
        return moved

    def _has_moved(self, known: Point, point: Point) -> bool:
        """Against what the present curve was drawn through, not against the last mean."""
        drawn = self.fitted.get(_setting(known))
        if drawn is None or point.seconds > SURER * drawn.seconds:
            return True
        return abs(point.units_per_second / drawn.units_per_second - 1.0) > STIRRED

    def copied(self) -> "Lesson":
        return replace(self)


class Learning:
    """Lessons by slot, and what finished jobs have taught."""

    def __init__(self) -> None:
        self.lessons: dict[int, Lesson] = {}
        self.totals: History[float] = History(LATEST_TOTALS)
        self.curves: History[Run] = History(LATEST_CURVES)
        self.stages: StageHistory = History(LATEST_STAGES)
        self.prior = FREE
        self.curve_scores = Calibration()
        self.work_scores = Calibration()

    def begin(self, state: BrainState, slot: int) -> None:
        """A job has been submitted: others have shown what to expect of it."""
        recall(state, slot, self.stages)
        spec = state.spec(slot)
        plans.begin(state, slot)
        if not is_learnt(spec) or not len(state.nodes.gpus):
            return
        known = self.curves.of(spec.tenant, spec.program)
        if known:
            self._foretell(state, slot, ())
            self._set_scale(state, slot)
        elif self.prior.jobs:
            unit = not np.isnan(state.jobs.scale[slot])
            self._foretell(state, slot, ())
            at_asked = state.likely_speed(slot, spec.width.asked_gpus)
            state.jobs.scale[slot] = state.jobs.pace[slot] / at_asked if unit else np.nan

    def hear(self, state: BrainState, slot: int, event: JobMeasured, now: float) -> bool:
        """Learn from a measurement that makes sense; whether it is worth a round."""
        lesson, spec = self.lessons.setdefault(slot, Lesson()), state.spec(slot)
        if lesson.is_repeated(event):
            return False
        news = plans.hear(state, slot, event)
        in_range = 0 < event.gpus <= spec.width.max_gpus
        speed = reference_speed(state, slot, event)
        if is_learnt(spec) and in_range and speed is not None:
            first_time = all(point.gpus != event.gpus for point in lesson.points)
            if lesson.points and first_time:
                self._score(state, slot, event.gpus, speed)
            if lesson.see_speed(_point(event, speed)):
                news = self._learn_curve(state, slot, lesson, event.gpus)
        if event.loss is not None:
            lesson.losses = lesson.losses.with_one(event.work_done, event.loss)
        return self._learn_work(state, slot, lesson, event, now) or news

    def close(self, state: BrainState, slot: int, *, succeeded: bool) -> None:
        """The job is over: what it needed is a lesson for others like it."""
        lesson, spec, jobs = self.lessons.pop(slot, None), state.spec(slot), state.jobs
        if lesson is not None and lesson.points:
            self.curves.add(spec.tenant, spec.program, lesson.points)
            self._see_typical(lesson.points)
        if succeeded:
            total = float(jobs.work_done[slot])
            if spec.work is None and jobs.work_low[slot] > 0:
                self.work_scores = self.work_scores.with_score(
                    float(jobs.work_total[slot]),
                    float(jobs.work_low[slot]),
                    float(jobs.work_high[slot]),
                    total,
                )
            self.totals.add(spec.tenant, spec.program, total)

    def copied(self) -> "Learning":
        twin = Learning()
        twin.lessons = {slot: lesson.copied() for slot, lesson in self.lessons.items()}
        twin.totals, twin.curves = self.totals.copied(), self.curves.copied()
        twin.stages, twin.prior = self.stages.copied(), self.prior
        twin.curve_scores, twin.work_scores = self.curve_scores, self.work_scores
        return twin

    def _learn_curve(self, state: BrainState, slot: int, lesson: Lesson, gpus: int) -> bool:
        """Foretell all widths anew; whether that is news."""
        jobs, spec, book = state.jobs, state.spec(slot), state.menus
        before = jobs.scale[slot] * book.table.likely[jobs.menu[slot]]
        self._foretell(state, slot, lesson.points)
        self._set_scale(state, slot)
        explored = bool(jobs.explore[slot])
        jobs.explore[slot] = _next_width(lesson, spec, gpus)
        after = book.table.likely[jobs.menu[slot], : len(before)]
        alike = np.abs(after - before) <= NOTABLE * np.abs(after)  # of NaN nothing is like it
        return not alike.all() or explored or bool(jobs.explore[slot])

    def _foretell(self, state: BrainState, slot: int, points: tuple[Point, ...]) -> None:
        """Write the curve that follows from these points, its forerunners and what is typical."""
        spec, book, menu = state.spec(slot), state.menus, int(state.jobs.menu[slot])
        foretold = Recalled(self.curves.of(spec.tenant, spec.program))(
            points,
            widest=spec.width.max_gpus,
            node_gpus=int(state.nodes.gpus.max()),
            prior=self.prior,
            widths=np.array(listed(spec.width)[1:]),
        )
        gpus = foretold.widths.tolist()
        speeds = foretold.likely, foretold.low, foretold.high
        state.jobs.menu[slot] = book.learnt(menu, gpus, *speeds)

    def _set_scale(self, state: BrainState, slot: int) -> None:
        """The curve is in the job's own unit."""
        jobs, asked = state.jobs, state.spec(slot).width.asked_gpus
        jobs.scale[slot] = 1.0
        jobs.pace[slot] = state.likely_speed(slot, asked)

    def _see_typical(self, points: tuple[Point, ...]) -> None:
        """What a job lost by its width is a lesson for all."""
        evidence = Evidence.of(points)
        if len(np.unique(evidence.widths)) > 1:
            self.prior = self.prior.with_job(losses_seen(evidence, self.prior))

    def _score(self, state: BrainState, slot: int, gpus: int, speed: float) -> None:
        """A width that was only foretold has been measured."""
        table, scale = state.menus.table, float(state.jobs.scale[slot])
        menu, at = state.jobs.menu[[slot]], np.array([gpus])
        low, high = table.intervals(menu, at)
        self.curve_scores = self.curve_scores.with_score(
            scale * float(table.speeds(menu, at)[0]),
            scale * float(low[0]),
            scale * float(high[0]),
            speed,
        )

    def _learn_work(
        self, state: BrainState, slot: int, lesson: Lesson, event: JobMeasured, now: float
    ) -> bool:
        """Foretell the total work, where it was not stated; whether others should know."""
        jobs, spec = state.jobs, state.spec(slot)
        if event.epoch == jobs.epoch[slot] and state.state_of(slot) is State.RUNNING:
            state.settle(slot, now)
            state.set_pace(slot)
            jobs.work_done[slot] = event.work_done
        stated = lesson.stated if event.work_total is None else event.work_total
        anew, lesson.stated = stated != lesson.stated, stated
        if spec.work is not None or not (anew or check_is_due(event.work_done, lesson.checked_at)):
            return False
        total = total_work(
            stated=stated,
            losses=lesson.losses,
            goal=_goal(spec),
            earlier=self.totals.of(spec.tenant, spec.program),
            done=event.work_done,
        )
        _write(state, slot, total)
        return _check(state, slot, lesson, total, event.work_done)


def makes_sense(event: JobMeasured) -> bool:
    """Whether these are numbers at all: what a worker says is a claim."""
    said = (event.units_per_second, event.seconds, event.work_done, event.cpus)
    more = (event.work_total or 0.0, event.shared_steps_per_second or 0.0)
    return all(isfinite(figure) and figure >= 0.0 for figure in (*said, *more))


def _goal(spec: JobRequest) -> Goal | None:
    return None if spec.target_loss is None else Target(spec.target_loss)


def _point(event: JobMeasured, speed: float) -> Point:
    return Point(
        event.gpus,
        speed,
        nodes=event.nodes,
        cpus_per_gpu=event.cpus / event.gpus if event.gpus else 0.0,
        seconds=event.seconds,
    )


def _setting(point: Point) -> tuple[int, int, float]:
    return point.gpus, point.nodes, point.cpus_per_gpu


def _mean(one: Point, other: Point) -> Point:
    weights = max(one.seconds, A_MOMENT), max(other.seconds, A_MOMENT)
    units = one.units_per_second * weights[0] + other.units_per_second * weights[1]
    return replace(other, units_per_second=units / sum(weights), seconds=sum(weights))


def _next_width(lesson: Lesson, spec: JobRequest, width: int) -> int:
    """Half the width, or half of that, where it is not known yet; 0 when enough is known."""
    known = {point.gpus for point in lesson.points}
    least = max(spec.width.min_gpus, 1)
    while width > least and len(known) < EXPLORED_WIDTHS:
        width = max(width // 2, least)
        if width not in known:
            return width
    return 0


def _write(state: BrainState, slot: int, total: Total | None) -> None:
    jobs = state.jobs
    if total is None:
        jobs.work_total[slot] = jobs.work_low[slot] = jobs.work_high[slot] = np.nan
        return
    jobs.work_total[slot] = total.likely
    jobs.work_low[slot], jobs.work_high[slot] = total.low, total.high


def _check(state: BrainState, slot: int, lesson: Lesson, total: Total | None, done: float) -> bool:
    """Whether the job has become predictable, or is so no more."""
    before = int(state.jobs.steady[slot])
    found = 0 if total is None else checked(before, total, done)
    lesson.checked_at, state.jobs.steady[slot] = done, found
    return (before >= PREDICTABLE_AFTER) != (found >= PREDICTABLE_AFTER)
