"""Where the time of a training step goes: measured at a few borders, told in a few numbers.

The loop calls `enter` at each border, so every instant of a step belongs to exactly one *exposed*
stage and their sum is the step's wall time. Work that runs beside the loop (loader threads, the
all-reduce, a GPU) is *busy* time: it is measured where it happens, comes in by `add` or from the
device's own clock, and may be hidden wholly or partly. With overlap neither tells what a stage
would take by itself, so a few steps after each change, and a few in every thousand, are to be run
one stage after the other (`calibrating`); their figures are kept apart and called *clean*. The
first step after a change carries the state to newcomers: it belongs to no width, and is not booked.

A border costs one reading of the clock and one addition. Medians and tails are computed only when a
report is asked for, over the steps since the last one. The loop's thread calls `enter`,
`close_step`, `drop_step`, `calibrating` and `switched`; any thread may `add` and look at `section`;
one other thread may ask for reports. None of them takes a lock.
"""

import hashlib
import json
import math
import resource
import statistics
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

from weft.train.device_clock import DeviceClock

CALIBRATION_STEPS: Final = 3
CALIBRATION_EVERY_STEPS: Final = 1000
WINDOW_STEPS: Final = 512
MOST_REPORT_BYTES: Final = 1024
NO_COUNT: Final[Mapping[str, int]] = {}


class Resource(StrEnum):
    """What a stage keeps busy; the words of a worker's report to the operator."""

    STORAGE = "storage"
    CPU = "cpu"
    GPU = "gpu"
    NETWORK = "network"


class Stage(StrEnum):
    """A part of a step: whether it is a part of the wall time, what it keeps busy, its meaning."""

    exposed: bool
    resource: Resource | None
    meaning: str
    column: int

    def __new__(cls, label: str, exposed: bool, resource: Resource | None, meaning: str) -> "Stage":
        stage = str.__new__(cls, label)
        stage._value_ = label
        stage.exposed = exposed
        stage.resource = resource
        stage.meaning = meaning
        stage.column = len(cls.__members__)
        return stage

    DATA_WAIT = "data_wait", True, Resource.STORAGE, "the loop waits for its next batch"
    CPU_PREP = "cpu_prep", False, Resource.CPU, "loader threads decode and collate samples"
    H2D = "h2d", True, Resource.GPU, "the batch is copied to the device"
    FORWARD = "forward", True, Resource.GPU, "the loop's body up to the backward pass"
    BACKWARD = "backward", True, Resource.GPU, "the backward pass"
    COMM_BUSY = "comm_busy", False, Resource.NETWORK, "gradients are summed, hidden or not"
    COMM_EXPOSED = "comm_exposed", True, None, "the loop waits for the sum and for the vote"
    OPTIM = "optim", True, Resource.GPU, "the optimizer's step"
    CKPT_BLOCK = "ckpt_block", True, None, "the loop stands still for a snapshot"
    TOKEN_WAIT = "token_wait", True, None, "another job on the same GPU has its turn"
    IDLE = "idle", True, None, "between steps, in code that is none of the above"

    @property
    def may_be_busy(self) -> bool:
        """Whether it is work, and so may run beside the loop; the others are waits of the loop."""
        return self.resource is not None and self is not Stage.DATA_WAIT


class Stages:
    """The stage that the loop is in, and what the steps so far were spent on."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.perf_counter,
        device: DeviceClock[Any] | None = None,
    ) -> None:
        self.border: Callable[[Stage], None] | None = None  # is told before a stage is entered
        self._clock = clock
        self._device = device
        self._step_began = clock()
        self._section = (Stage.IDLE, self._step_began)
        self._exposed = _nothing()
        self._added: deque[tuple[Stage, float]] = deque(maxlen=MOST_ADDED)
        self._marks: list[tuple[Stage, Any]] = []
        self._pending: deque[_Pending] = deque()
        self._changed_at = 0
        self._calibrating = False
        self._carrying = False
        self._record = _Record(None)
        self._rates: OrderedDict[Setting, tuple[float, float]] = OrderedDict()

    def enter(self, stage: Stage) -> None:
        """The present stage ends and this one begins; the same one may come often in a step."""
        if not stage.exposed:
            raise ValueError(f"{stage} runs beside the loop: use add()")
        if self.border is not None:
            self.border(stage)
        now = self._clock()
        before, since = self._section
        self._exposed[before.column] += now - since
        self._section = (stage, now)
        if self._device is not None:
            self._marks.append((stage, self._device.mark()))

    def add(self, stage: Stage, seconds: float) -> None:
        """Busy time that was measured elsewhere, for the step that is closed next."""
        if not stage.may_be_busy:
            raise ValueError(f"{stage} is a wait of the loop: use enter()")
        if 0.0 < seconds < math.inf:
            self._added.append((stage, seconds))

    def waited_for_turns(self, seconds: float) -> None:
        """So long whoever reads waited for its turn: no wait for data, as far as the loop noticed.

        What was read ahead, while the loop had something to do, has cost it nothing.
        """
        moved = min(seconds, self._exposed[Stage.DATA_WAIT.column])
        if moved > 0.0:
            self._exposed[Stage.DATA_WAIT.column] -= moved
            self._exposed[Stage.TOKEN_WAIT.column] += moved

    def close_step(self, samples: int) -> None:
        """A step was applied that trained on so many samples, of all workers together."""
        if self._carrying:
            self._carrying = False
            self.drop_step()
            return
        now = self._clock()
        before, since = self._section
        self._exposed[before.column] += now - since
        self._section = (Stage.IDLE, now)
        step = _Step(now - self._step_began, samples, self._exposed, self._taken())
        self._exposed = _nothing()
        self._step_began = now
        record = self._record
        window = record.clean if self._calibrating else record.overlapped
        if self._device is None:
            window.push(step)
            return
        self._settle(self._device)
        self._marks.append((Stage.IDLE, self._device.mark()))
        self._pending.append(_Pending(step, window, self._marks))
        self._marks = []

    def drop_step(self) -> None:
        """Forget what was measured since the last close: a failed step, or what came before all."""
        now = self._clock()
        self._section = (Stage.IDLE, now)
        self._step_began = now
        self._exposed = _nothing()
        self._added.clear()
        if self._device is not None:
            self._device.release(mark for _, mark in self._marks)
        self._marks = []

    def section(self) -> tuple[Stage, float]:
        """The stage that the loop is in, and the seconds since it entered it."""
        stage, since = self._section
        return stage, self._clock() - since

    def switched(self, width: int, plan: Mapping[str, Any], step: int) -> None:
        """This step is the first with these members; the ones behind it calibrate.

        The step itself does not: it may carry the state to newcomers. To be called at each change
        of the members, even if the width stays: only then do all workers calibrate the same steps.
        """
        self._changed_at = step
        setting = _setting(width, plan)
        if self._record.setting is None:
            self._record.setting = setting
        elif self._record.setting != setting:
            self._record = _Record(setting)

    def calibrating(self, step: int) -> bool:
        """Whether this step, which begins now, is to be run without overlap; it is booked so."""
        since = (step - self._changed_at) % CALIBRATION_EVERY_STEPS
        self._calibrating = 1 <= since <= CALIBRATION_STEPS
        self._carrying = step == self._changed_at
        return self._calibrating

    def usual_seconds(self) -> float | None:
        """What a step takes at the present width; None before there was one without a change."""
        newest = self._record.overlapped.newest(FEW_STEPS) or self._record.clean.newest(FEW_STEPS)
        return statistics.median(step.wall_seconds for step in newest) if newest else None

    @property
    def unreported_steps(self) -> int:
        """Steps that the next report will speak of."""
        return self._record.unreported_count

    def report(
        self, width: int, plan: Mapping[str, Any], epoch: int, company: Mapping[str, int] = NO_COUNT
    ) -> dict[str, Any]:
        """The steps since the last report, in at most 1 KB of JSON; times are in seconds.

        What was not measured is left out: all of it, if this is not the width and plan that
        `switched` was told of last. `company` are counts of turns, where there are any.
        """
        record, setting = self._record, _setting(width, plan)
        known = record.setting in (None, setting)
        steps = record.unreported() if known else _Steps(0, ())
        clean = record.clean.newest(CALIBRATION_STEPS) if known else ()
        calibrated = len(clean) == CALIBRATION_STEPS
        report: dict[str, Any] = {
            "width": _count(width),
            "plan": dict(plan),
            "epoch": _count(epoch),
            "steps": _count(steps.count),
            "calibrated": calibrated,
            "peak_memory_bytes": _count(self._peak_bytes(), most=MOST_BYTES),
            **{name: _count(count) for name, count in company.items()},
        }
        if steps.kept:
            report |= self._figures(record, setting, steps.kept)
        if calibrated:
            report["clean"] = _told(_durations(clean))
        report |= _by_resource(clean if calibrated else steps.kept, serial=calibrated)
        return _within_limit(report)

    def throughput(self) -> dict[tuple[int, str], float]:
        """Samples per second by width and plan (as JSON), for the ones used last."""
        return {
            setting: samples / seconds for setting, (samples, seconds) in list(self._rates.items())
        }

    def _taken(self) -> list[float]:
        busy = _nothing()
        while self._added:
            stage, seconds = self._added.popleft()
            busy[stage.column] += seconds
        return busy

    def _settle(self, device: DeviceClock[Any]) -> None:
        """Book what the device says of earlier steps; one that it lags behind is booked without."""
        while self._pending:
            pending = self._pending[0]
            passed = device.has_passed(pending.marks[-1][1])
            if not passed and len(self._pending) < MOST_PENDING:
                return
            self._pending.popleft()
            if passed:
                pending.book(device)
            device.release(mark for _, mark in pending.marks)
            pending.window.push(pending.step)

    def _peak_bytes(self) -> int:
        if self._device is not None:
            return self._device.peak_bytes()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB

    def _figures(
        self, record: "_Record", setting: "Setting", steps: Sequence["_Step"]
    ) -> dict[str, Any]:
        step = _spread([step.wall_seconds for step in steps])
        exposed = _spreads([step.exposed for step in steps])
        busy = _spreads([step.busy for step in steps])
        figures: dict[str, Any] = {
            "step": _pair(step),
            "mean_step": _rounded(statistics.fmean(step.wall_seconds for step in steps)),
            "samples_per_second": _rounded(self._rate(setting, steps), most=MOST_RATE),
            "exposed": {stage: _pair(spread) for stage, spread in exposed.items()},
            "busy": {stage: _pair(spread) for stage, spread in busy.items()},
        }
        slow = record.stragglers(step, exposed | busy)
        return figures | ({"stragglers": slow[:MOST_STRAGGLERS]} if slow else {})

    def _rate(self, setting: "Setting", steps: Sequence["_Step"]) -> float:
        samples = float(sum(step.samples for step in steps))
        seconds = sum(step.wall_seconds for step in steps)
        if seconds <= 0.0:
            return 0.0
        before_samples, before_seconds = self._rates.pop(setting, (0.0, 0.0))
        self._rates[setting] = (before_samples + samples, before_seconds + seconds)
        if len(self._rates) > MOST_SETTINGS:
            self._rates.popitem(last=False)
        return samples / seconds


Setting = tuple[int, str]
Spread = tuple[float, float]

STAGES: Final = tuple(Stage)
MOST_ADDED: Final = 4096
MOST_PENDING: Final = 4
FEW_STEPS: Final = 32
MOST_SETTINGS: Final = 16
MOST_STRAGGLERS: Final = 3
KIB: Final = 1024

# Bounds of what is told, so that a report keeps its size: a time has at most seven characters.
MOST_SECONDS: Final = 99_999.0
MOST_RATE: Final = 1e9
MOST_COUNT: Final = 10**10 - 1
MOST_BYTES: Final = 2**53 - 1

# A tail is compared with the middle of so many earlier ones, and only where a step would notice it.
HISTORY_REPORTS: Final = 30
FEWEST_REPORTS: Final = 5
GROWTH: Final = 3.0
NOTICEABLE: Final = 0.05


@dataclass(slots=True)
class _Step:
    """One step: seconds by the column of their stage."""

    wall_seconds: float
    samples: int
    exposed: list[float]
    busy: list[float]


@dataclass(frozen=True, slots=True)
class _Steps:
    """How many there were, and those that are kept."""

    count: int
    kept: Sequence[_Step]


class _Window:
    """The newest steps. The loop writes and another thread may read: a slot is never half full."""

    def __init__(self, size: int) -> None:
        self.count = 0
        self._slots: list[_Step | None] = [None] * size

    def push(self, step: _Step) -> None:
        self._slots[self.count % len(self._slots)] = step
        self.count += 1

    def newest(self, most: int) -> tuple[_Step, ...]:
        count, size = self.count, len(self._slots)
        places = range(max(0, count - min(most, size)), count)
        return tuple(step for place in places if (step := self._slots[place % size]) is not None)


class _Record:
    """What was measured under one width and plan."""

    def __init__(self, setting: Setting | None) -> None:
        self.setting = setting
        self.overlapped = _Window(WINDOW_STEPS)
        self.clean = _Window(CALIBRATION_STEPS)
        self._reported = 0
        self._tails: dict[Stage, deque[float]] = {}

    @property
    def unreported_count(self) -> int:
        return self.overlapped.count - self._reported

    def unreported(self) -> _Steps:
        """The steps since this was last asked."""
        count = self.overlapped.count
        before, self._reported = self._reported, count
        return _Steps(count - before, self.overlapped.newest(count - before))

    def stragglers(self, step: Spread, spreads: Mapping[Stage, Spread]) -> list[Stage]:
        """Stages whose tail grew against their own past, the worst first."""
        grown: dict[Stage, float] = {}
        for stage, (_, p99) in spreads.items():
            if stage is Stage.TOKEN_WAIT:  # is another job's doing
                continue
            past = self._tails.setdefault(stage, deque(maxlen=HISTORY_REPORTS))
            usual = statistics.median(past) if len(past) >= FEWEST_REPORTS else math.inf
            if p99 >= GROWTH * usual and p99 >= NOTICEABLE * step[0]:
                grown[stage] = p99 / usual
            past.append(p99)
        return sorted(grown, key=lambda stage: -grown[stage])


@dataclass(frozen=True, slots=True)
class _Pending:
    """A closed step that the device may still be working on."""

    step: _Step
    window: _Window
    marks: list[tuple[Stage, Any]]

    def book(self, device: DeviceClock[Any]) -> None:
        """Between two marks the device did the first one's stage, if that is work for it."""
        for (stage, begin), (_, end) in pairwise(self.marks):
            if stage.resource is Resource.GPU:
                self.step.busy[stage.column] += device.seconds_between(begin, end)


def _nothing() -> list[float]:
    return [0.0] * len(STAGES)


def _setting(width: int, plan: Mapping[str, Any]) -> Setting:
    return width, _json(plan)


def _spreads(rows: Sequence[list[float]]) -> dict[Stage, Spread]:
    """Of each stage that occurred; a step without it counts as zero."""
    columns = zip(*rows, strict=True)
    return {
        stage: _spread(column) for stage, column in zip(STAGES, columns, strict=True) if any(column)
    }


def _spread(values: Sequence[float]) -> Spread:
    """Median and 99th percentile, by nearest rank."""
    ranked = sorted(values)
    return ranked[math.ceil(0.5 * len(ranked)) - 1], ranked[math.ceil(0.99 * len(ranked)) - 1]


def _durations(steps: Sequence[_Step]) -> dict[Stage, float]:
    """The median of each stage's work: as measured beside the loop, else as the loop saw it."""
    exposed = _spreads([step.exposed for step in steps])
    busy = _spreads([step.busy for step in steps])
    return {stage: p50 for stage, (p50, _) in (exposed | busy).items() if stage.resource}


def _by_resource(steps: Sequence[_Step], *, serial: bool) -> dict[str, Any]:
    """The work of one step by what it keeps busy.

    In a serial step the loop itself waits while samples are prepared, so what is left of that wait
    was spent on storage.
    """
    if not steps:
        return {}
    seconds: dict[Resource, float] = {}
    for stage, p50 in _durations(steps).items():
        if stage.resource is not None:
            seconds[stage.resource] = seconds.get(stage.resource, 0.0) + p50
    if serial and Resource.STORAGE in seconds:
        waited = seconds[Resource.STORAGE] - seconds.get(Resource.CPU, 0.0)
        seconds[Resource.STORAGE] = max(0.0, waited)
    return {"resources": _told(seconds)}


def _told(seconds: Mapping[Any, float]) -> dict[Any, float]:
    return {name: _rounded(value) for name, value in seconds.items()}


def _pair(spread: Spread) -> list[float]:
    return [_rounded(value) for value in spread]


def _rounded(value: float, most: float = MOST_SECONDS) -> float:
    """Three digits that count and five behind the point, so a short text whatever the value."""
    return round(float(f"{min(max(0.0, value), most):.3g}"), 5)


def _count(value: int, most: int = MOST_COUNT) -> int:
    return max(0, min(value, most))


def _within_limit(report: dict[str, Any]) -> dict[str, Any]:
    """All but the plan is bounded: where it leaves no room, its digest stands for it."""
    if len(_json(report)) <= MOST_REPORT_BYTES:
        return report
    digest = hashlib.sha256(_json(report["plan"]).encode()).hexdigest()
    return report | {"plan": f"sha256:{digest[:16]}"}


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
