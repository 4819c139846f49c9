"""The stages of a step: what is measured, what is told, and how little it costs."""

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from tests.work import calls_of
from weft.train.device_clock import CudaClock, DeviceClock
from weft.train.stages import (
    CALIBRATION_EVERY_STEPS,
    FEWEST_REPORTS,
    HISTORY_REPORTS,
    MOST_REPORT_BYTES,
    MOST_SETTINGS,
    WINDOW_STEPS,
    Resource,
    Stage,
    Stages,
)
from weft.train.stages import STAGES as ALL

PLAN = {"shard": 1}
USUAL = {
    Stage.DATA_WAIT: 0.01,
    Stage.H2D: 0.002,
    Stage.FORWARD: 0.03,
    Stage.BACKWARD: 0.05,
    Stage.COMM_EXPOSED: 0.004,
    Stage.OPTIM: 0.006,
}
EXPOSED = [str(stage) for stage in ALL if stage.exposed]
DOCS = Path(__file__).parents[2] / "docs" / "stages.md"


@dataclass
class Hands:
    """A clock that a test turns."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Loop:
    """A training loop whose stages take as long as it is told."""

    device: DeviceClock[Any] | None = None
    hands: Hands = field(default_factory=Hands)
    stages: Stages = field(init=False)

    def __post_init__(self) -> None:
        self.stages = Stages(clock=self.hands, device=self.device)

    def spend(self, stage: Stage, seconds: float) -> None:
        self.stages.enter(stage)
        self.hands.now += seconds

    def step(self, samples: float = 512, **seconds: float) -> None:
        """The usual step, but for the stages that are named."""
        for stage, usual in (USUAL | {stage: 0.0 for stage in ALL if stage in seconds}).items():
            self.spend(stage, seconds.get(stage, usual))
        self.stages.close_step(int(samples))

    def calibrate(self, first: int = 1, **seconds: float) -> None:
        for step in range(first, first + 3):
            assert self.stages.calibrating(step)
            self.step(**seconds)
        self.stages.calibrating(first + 3)


def size(report: dict[str, object]) -> int:
    return len(json.dumps(report, separators=(",", ":"), allow_nan=False).encode())


def test_exposed_stages_add_up_to_the_step() -> None:
    loop = Loop()
    loop.step()
    report = loop.stages.report(2, PLAN, 7)
    assert report["exposed"] == {stage: [seconds] * 2 for stage, seconds in USUAL.items()}
    assert report["step"] == [0.102, 0.102]
    assert sum(p50 for p50, _ in report["exposed"].values()) == pytest.approx(0.102)
    assert (report["width"], report["plan"], report["epoch"]) == (2, PLAN, 7)
    assert (report["steps"], report["calibrated"]) == (1, False)
    assert report["samples_per_second"] == 5020  # 512 / 0.102, to three digits
    assert report["peak_memory_bytes"] > 2**20


def test_what_lies_between_steps_is_idle() -> None:
    loop = Loop()
    loop.step()
    loop.hands.now += 0.5
    loop.step()
    report = loop.stages.report(1, PLAN, 0)
    assert report["exposed"][Stage.IDLE] == [0.0, 0.5]
    assert report["step"] == [0.102, 0.602]


def test_a_stage_may_come_often_in_a_step() -> None:
    loop = Loop()
    for _ in range(4):
        loop.spend(Stage.FORWARD, 0.1)
        loop.spend(Stage.BACKWARD, 0.2)
    loop.stages.close_step(8)
    assert loop.stages.report(1, PLAN, 0)["exposed"] == {
        Stage.FORWARD: [0.4, 0.4],
        Stage.BACKWARD: [0.8, 0.8],
    }


def test_busy_times_stand_beside_the_step() -> None:
    loop = Loop()
    loop.stages.add(Stage.COMM_BUSY, 0.03)
    loop.stages.add(Stage.COMM_BUSY, 0.02)
    loop.stages.add(Stage.CPU_PREP, 0.09)
    loop.step()
    loop.step()
    report = loop.stages.report(1, PLAN, 0)
    assert report["busy"] == {Stage.CPU_PREP: [0.0, 0.09], Stage.COMM_BUSY: [0.0, 0.05]}
    assert report["step"] == [0.102, 0.102]
    assert set(report["exposed"]) == set(USUAL)


@pytest.mark.parametrize("stage", ALL)
def test_waits_are_entered_and_work_beside_the_loop_is_added(stage: Stage) -> None:
    stages = Stages()
    if not stage.exposed:
        with pytest.raises(ValueError, match=r"use add"):
            stages.enter(stage)
    if not stage.may_be_busy:
        with pytest.raises(ValueError, match=r"use enter"):
            stages.add(stage, 1.0)
    assert stage.exposed or stage.may_be_busy


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0, 0.0])
def test_what_is_no_time_is_not_added(seconds: float) -> None:
    loop = Loop()
    loop.stages.add(Stage.CPU_PREP, seconds)
    loop.step()
    assert loop.stages.report(1, PLAN, 0)["busy"] == {}


def test_no_busy_second_is_lost_between_threads() -> None:
    loop = Loop()

    def prepare() -> None:
        for _ in range(500):
            loop.stages.add(Stage.CPU_PREP, 0.001)

    threads = [Thread(target=prepare) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loop.step()
    assert loop.stages.report(1, PLAN, 0)["busy"] == {Stage.CPU_PREP: [2.0, 2.0]}


def test_a_dropped_step_leaves_no_trace() -> None:
    loop = Loop()
    loop.spend(Stage.FORWARD, 60.0)
    loop.stages.add(Stage.COMM_BUSY, 30.0)
    loop.stages.drop_step()
    assert loop.stages.section() == (Stage.IDLE, 0.0)
    loop.step()
    report = loop.stages.report(1, PLAN, 0)
    assert (report["steps"], report["step"], report["busy"]) == (1, [0.102, 0.102], {})


def test_the_section_tells_where_the_loop_is_and_since_when() -> None:
    loop = Loop()
    assert loop.stages.section() == (Stage.IDLE, 0.0)
    loop.spend(Stage.BACKWARD, 12.5)
    seen: list[tuple[Stage, float]] = []
    watch = Thread(target=lambda: seen.append(loop.stages.section()))
    watch.start()
    watch.join()
    assert seen == [(Stage.BACKWARD, 12.5)]


def test_a_report_covers_the_steps_since_the_last() -> None:
    loop = Loop()
    loop.step(forward=9.0)
    assert loop.stages.report(1, PLAN, 0)["exposed"][Stage.FORWARD] == [9, 9]
    assert "step" not in loop.stages.report(1, PLAN, 0)
    assert loop.stages.report(1, PLAN, 0)["steps"] == 0
    loop.step()
    assert loop.stages.report(1, PLAN, 0)["exposed"][Stage.FORWARD] == [0.03, 0.03]


def test_of_many_steps_the_newest_are_kept() -> None:
    loop = Loop()
    loop.step(forward=9.0)
    for _ in range(WINDOW_STEPS):
        loop.step()
    report = loop.stages.report(1, PLAN, 0)
    assert report["steps"] == WINDOW_STEPS + 1
    assert report["exposed"][Stage.FORWARD] == [0.03, 0.03]


def test_middle_and_tail_by_nearest_rank() -> None:
    loop = Loop()
    shuffled = list(range(1, 101))
    Random(3).shuffle(shuffled)
    for number in shuffled:
        loop.step(forward=number / 100)
    assert loop.stages.report(1, PLAN, 0)["exposed"][Stage.FORWARD] == [0.5, 0.99]


# --------------------------------------------------------------------------------- calibration


def test_three_steps_behind_a_change_and_three_in_a_thousand_are_serial() -> None:
    stages = Stages()
    stages.switched(2, PLAN, 40)
    serial = [step for step in range(40, 40 + 2500) if stages.calibrating(step)]
    assert serial == [41, 42, 43, 1041, 1042, 1043, 2041, 2042, 2043]
    assert CALIBRATION_EVERY_STEPS == 1000
    stages.switched(2, PLAN, 50)  # one member took another's place
    assert [step for step in range(45, 60) if stages.calibrating(step)] == [51, 52, 53]


def test_workers_of_one_epoch_calibrate_the_same_steps_whatever_came_before() -> None:
    veteran, joiner = Stages(), Stages()
    veteran.switched(1, PLAN, 0)
    for stages in (veteran, joiner):
        stages.switched(2, PLAN, 777)
    steps = range(777, 4000)
    assert [veteran.calibrating(step) for step in steps] == [
        joiner.calibrating(step) for step in steps
    ]


def test_clean_figures_are_told_apart() -> None:
    loop = Loop()
    loop.stages.switched(1, PLAN, 0)
    loop.stages.calibrating(0)
    loop.step()
    assert loop.stages.report(1, PLAN, 0)["calibrated"] is False
    loop.stages.add(Stage.COMM_BUSY, 0.02)
    loop.calibrate(data_wait=0.2, comm_exposed=0.02)
    report = loop.stages.report(1, PLAN, 0)
    assert (report["steps"], report["calibrated"]) == (0, True)
    assert "step" not in report
    assert report["clean"] == {
        Stage.DATA_WAIT: 0.2,
        Stage.H2D: 0.002,
        Stage.FORWARD: 0.03,
        Stage.BACKWARD: 0.05,
        Stage.OPTIM: 0.006,
        Stage.COMM_BUSY: 0.0,
    }
    loop.step()
    later = loop.stages.report(1, PLAN, 0)
    assert (later["steps"], later["step"]) == (1, [0.102, 0.102])
    assert later["clean"] == report["clean"]


def test_what_was_waited_for_a_turn_to_read_is_no_work_of_storage() -> None:
    loop = Loop()
    loop.stages.switched(1, PLAN, 0)
    loop.stages.calibrating(0)
    loop.step()
    for step in (1, 2, 3):
        loop.stages.calibrating(step)
        loop.spend(Stage.DATA_WAIT, 0.5)
        loop.spend(Stage.FORWARD, 0.1)
        loop.stages.waited_for_turns(0.375)
        loop.step(data_wait=0.0)
    report = loop.stages.report(1, PLAN, 0)
    assert report["resources"][Resource.STORAGE] == 0.125
    loop.stages.calibrating(4)
    loop.spend(Stage.DATA_WAIT, 0.01)
    loop.spend(Stage.FORWARD, 0.1)
    loop.stages.waited_for_turns(0.375)
    loop.step(data_wait=0.0)
    exposed = loop.stages.report(1, PLAN, 0)["exposed"]
    assert exposed[Stage.TOKEN_WAIT] == [0.01, 0.01], "the rest was hidden"
    assert Stage.DATA_WAIT not in exposed


def test_the_first_step_after_a_change_belongs_to_no_width() -> None:
    """It carries the state to newcomers, who bring no samples yet."""
    loop = Loop()
    loop.stages.switched(2, PLAN, 40)
    assert loop.stages.usual_seconds() is None
    loop.stages.calibrating(40)
    loop.step(comm_exposed=9.0)
    loop.calibrate(41, forward=0.5)
    assert (loop.stages.unreported_steps, loop.stages.report(2, PLAN, 0)["steps"]) == (0, 0)
    for step in (44, 45):
        loop.stages.calibrating(step)
        loop.step(forward=0.06 if step == 44 else 0.03)
    assert loop.stages.unreported_steps == 2
    report = loop.stages.report(2, PLAN, 0)
    assert (report["steps"], report["mean_step"]) == (2, 0.117)
    assert loop.stages.unreported_steps == 0
    assert loop.stages.usual_seconds() == pytest.approx(0.117)


def test_the_work_of_a_step_by_resource() -> None:
    loop = Loop()
    loop.step()
    hidden = loop.stages.report(1, PLAN, 0)["resources"]
    assert hidden == {Resource.STORAGE: 0.01, Resource.GPU: 0.088}
    for step in (1, 2, 3):
        loop.stages.calibrating(step)
        loop.stages.add(Stage.CPU_PREP, 0.15)
        loop.stages.add(Stage.COMM_BUSY, 0.07)
        loop.step(data_wait=0.2)
    assert loop.stages.report(1, PLAN, 0)["resources"] == {
        Resource.STORAGE: 0.05,  # the rest of the wait was for samples to be prepared
        Resource.CPU: 0.15,
        Resource.GPU: 0.088,
        Resource.NETWORK: 0.07,
    }


def test_another_plan_begins_a_record_of_its_own() -> None:
    loop = Loop()
    loop.stages.switched(1, PLAN, 0)
    loop.calibrate()
    loop.step()
    loop.stages.switched(2, PLAN, 4)
    assert loop.stages.report(1, PLAN, 0) == loop.stages.report(1, PLAN, 0)
    report = loop.stages.report(2, PLAN, 1)
    assert (report["steps"], report["calibrated"]) == (0, False)
    assert "step" not in report
    loop.step(forward=0.5)
    assert loop.stages.report(2, {"shard": 2}, 1)["steps"] == 0
    assert loop.stages.report(2, PLAN, 1)["exposed"][Stage.FORWARD] == [0.5, 0.5]


def test_throughput_is_kept_by_width_and_plan() -> None:
    loop = Loop()
    for width in (1, 2, 1):
        loop.stages.switched(width, PLAN, 0)
        for _ in range(10):
            loop.step(samples=102 * width)
        loop.stages.report(width, PLAN, 0)
    rates = loop.stages.throughput()
    assert rates == {
        (2, '{"shard":1}'): pytest.approx(2000),
        (1, '{"shard":1}'): pytest.approx(1000),
    }
    for width in range(100):
        loop.stages.switched(width, PLAN, 0)
        loop.step()
        loop.stages.report(width, PLAN, 0)
    assert [width for width, _ in loop.stages.throughput()] == list(range(100 - MOST_SETTINGS, 100))


# ---------------------------------------------------------------------------------- stragglers


def reported(loop: Loop, **seconds: float) -> list[Stage]:
    for _ in range(20):
        loop.step(**seconds)
    slow: list[Stage] = loop.stages.report(1, PLAN, 0).get("stragglers", [])
    return slow


def test_a_stage_that_grew_threefold_is_named_until_it_is_usual() -> None:
    loop = Loop()
    for _ in range(FEWEST_REPORTS):
        assert reported(loop) == []
    assert reported(loop, forward=0.08, data_wait=0.02) == []
    assert reported(loop, forward=0.1, data_wait=0.09) == [Stage.DATA_WAIT, Stage.FORWARD]
    assert reported(loop) == []
    named = [reported(loop, forward=0.1) == [Stage.FORWARD] for _ in range(HISTORY_REPORTS)]
    assert named[0] and not named[-1]


def test_growth_that_no_step_would_notice_is_not_named() -> None:
    loop = Loop()
    for _ in range(FEWEST_REPORTS):
        reported(loop, ckpt_block=0.00001)
    assert reported(loop, ckpt_block=0.004) == []
    assert reported(loop, ckpt_block=0.006) == [Stage.CKPT_BLOCK]


def test_a_wait_for_another_job_is_no_straggler_of_this_one() -> None:
    loop = Loop()
    for _ in range(FEWEST_REPORTS):
        reported(loop, token_wait=0.001)
    assert reported(loop, token_wait=0.5) == []


def test_busy_times_have_stragglers_too() -> None:
    loop = Loop()
    for _ in range(FEWEST_REPORTS):
        loop.stages.add(Stage.COMM_BUSY, 0.02)
        reported(loop)
    loop.stages.add(Stage.COMM_BUSY, 0.07)
    assert reported(loop) == [Stage.COMM_BUSY]


# -------------------------------------------------------------------------------------- device


@dataclass
class FakeDevice:
    """Work queues up behind marks; the device has passed those that the test says."""

    marks: list[float] = field(default_factory=list)
    passed: int = 0
    released: list[int] = field(default_factory=list)
    queued_seconds: float = 0.0

    def mark(self) -> int:
        self.marks.append(self.queued_seconds)
        return len(self.marks) - 1

    def has_passed(self, mark: int) -> bool:
        return mark < self.passed

    def seconds_between(self, first: int, second: int) -> float:
        assert max(first, second) < self.passed, "read before the device has passed it"
        return self.marks[second] - self.marks[first]

    def release(self, marks: Iterable[int]) -> None:
        self.released.extend(marks)

    def peak_bytes(self) -> int:
        return 40 * 2**30


def gpu_step(loop: Loop, device: FakeDevice, *, forward: float, backward: float) -> None:
    """The host only queues work, so the loop's own times are short."""
    loop.spend(Stage.DATA_WAIT, 0.001)
    device.queued_seconds += 0.5  # it starves
    loop.spend(Stage.FORWARD, 0.002)
    device.queued_seconds += forward
    loop.spend(Stage.BACKWARD, 0.003)
    device.queued_seconds += backward
    loop.stages.close_step(512)


def test_a_device_is_asked_one_step_later() -> None:
    device = FakeDevice()
    loop = Loop(device)
    gpu_step(loop, device, forward=0.03, backward=0.06)
    assert loop.stages.report(1, PLAN, 0)["steps"] == 0
    device.passed = 4
    gpu_step(loop, device, forward=7.0, backward=7.0)
    report = loop.stages.report(1, PLAN, 0)
    assert report["steps"] == 1
    assert report["busy"] == {Stage.FORWARD: [0.03, 0.03], Stage.BACKWARD: [0.06, 0.06]}
    assert report["exposed"][Stage.FORWARD] == [0.002, 0.002]
    assert report["resources"] == {Resource.STORAGE: 0.001, Resource.GPU: 0.09}
    assert report["peak_memory_bytes"] == 40 * 2**30
    assert device.released == [0, 1, 2, 3]


def test_a_device_that_lags_is_never_waited_for() -> None:
    device = FakeDevice()
    loop = Loop(device)
    for _ in range(10):
        gpu_step(loop, device, forward=0.03, backward=0.06)
    report = loop.stages.report(1, PLAN, 0)
    assert (report["steps"], report["busy"]) == (6, {})
    assert device.released == list(range(24))
    device.passed = len(device.marks)
    gpu_step(loop, device, forward=0.03, backward=0.06)
    report = loop.stages.report(1, PLAN, 0)
    assert (report["steps"], report["busy"][Stage.FORWARD]) == (4, [0.03, 0.03])


def test_a_calibrated_step_stays_one_while_the_device_works_on_it() -> None:
    device = FakeDevice()
    loop = Loop(device)
    for step in range(1, 6):
        loop.stages.calibrating(step)
        gpu_step(loop, device, forward=0.01 * step, backward=0.06)
        device.passed = len(device.marks)
    report = loop.stages.report(1, PLAN, 0)
    assert report["clean"][Stage.FORWARD] == 0.02
    assert report["busy"][Stage.FORWARD] == [0.04, 0.04]


def test_marks_of_a_dropped_step_are_given_back() -> None:
    device = FakeDevice()
    loop = Loop(device)
    loop.spend(Stage.FORWARD, 1.0)
    loop.stages.drop_step()
    assert device.released == [0]
    gpu_step(loop, device, forward=0.03, backward=0.06)
    device.passed = len(device.marks)
    gpu_step(loop, device, forward=0.03, backward=0.06)
    assert loop.stages.report(1, PLAN, 0)["busy"][Stage.FORWARD] == [0.03, 0.03]


@dataclass
class FakeEvent:
    """A CUDA event; `at` is when the device came to it, in milliseconds."""

    recorded: int = 0
    at: float = 0.0

    def record(self) -> None:
        self.recorded += 1

    def query(self) -> bool:
        return True

    def elapsed_time(self, end_event: "FakeEvent") -> float:
        return end_event.at - self.at


def test_cuda_events_are_used_again() -> None:
    made: list[FakeEvent] = []

    def make() -> FakeEvent:
        made.append(FakeEvent())
        return made[-1]

    clock = CudaClock(make)
    first, second = clock.mark(), clock.mark()
    assert [event.recorded for event in made] == [1, 1]
    made[0].at, made[1].at = 250.0, 1750.0
    assert clock.has_passed(second)
    assert clock.seconds_between(first, second) == 1.5
    clock.release([first, second])
    assert {id(clock.mark()), id(clock.mark())} == {id(first), id(second)}
    assert len(made) == 2


# ---------------------------------------------------------------------------- size and overhead


def largest(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Every stage in every shape, each number as long as it gets."""
    monkeypatch.setattr(Stages, "_peak_bytes", lambda _: 2**60)
    loop, many = Loop(), 10**12
    loop.stages.switched(many, PLAN, 0)
    for step in range(1, 4 + FEWEST_REPORTS + 20):
        loop.stages.calibrating(step)
        usual = step < 4 + FEWEST_REPORTS
        for stage in ALL:
            if stage.may_be_busy:
                loop.stages.add(stage, 0.00123 if usual else 0.00789)
        times = dict.fromkeys(EXPOSED, 0.00123 if usual else 0.00789)
        loop.step(samples=10**15, **(times | {"data_wait": times["data_wait"] * 2}))
        if usual:
            loop.stages.report(many, PLAN, many)
    return loop.stages.report(many, PLAN, many)


def test_the_largest_report_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    report = largest(monkeypatch)
    parts = ("exposed", "busy", "clean", "resources", "stragglers")
    assert [len(report[part]) for part in parts] == [9, 6, 7, 4, 3]
    assert report["plan"] == PLAN
    assert 850 < size(report) <= MOST_REPORT_BYTES


SECONDS = st.one_of(
    st.floats(0, 1e300), st.floats(0, 1e-3), st.sampled_from([0.00123, 99_949.0, 1e-9, 1e5])
)


@given(
    steps=st.lists(st.tuples(*[SECONDS] * len(ALL)), min_size=1, max_size=8),
    samples=st.integers(0, 2**70),
    numbers=st.tuples(*[st.integers(0, 2**70)] * 2),
    plan=st.dictionaries(st.text(max_size=30), st.text(max_size=200) | st.integers(), max_size=5),
)
def test_a_report_fits_whatever_the_numbers_are(
    steps: list[tuple[float, ...]],
    samples: int,
    numbers: tuple[int, int],
    plan: dict[str, str | int],
) -> None:
    width, epoch = numbers
    loop = Loop()
    loop.stages.switched(width, plan, 0)
    for step, row in enumerate(steps):
        loop.stages.calibrating(step)
        for stage, seconds in zip(ALL, row, strict=True):
            if stage.may_be_busy:
                loop.stages.add(stage, seconds)
            if stage.exposed:
                loop.spend(stage, seconds)
        loop.stages.close_step(samples)
    assert size(loop.stages.report(width, plan, epoch)) <= MOST_REPORT_BYTES


def test_a_plan_too_long_to_tell_is_told_by_its_digest() -> None:
    long = {"hints": "x" * 2000}
    report = Stages().report(1, long, 0)
    assert report["plan"].startswith("sha256:")
    assert report["plan"] != Stages().report(1, {"hints": "y" * 2000}, 0)["plan"]
    assert size(report) <= MOST_REPORT_BYTES


def test_a_border_is_a_few_calls_however_long_the_training() -> None:
    stages = Stages()
    stages.enter(Stage.FORWARD)
    stages.close_step(512)
    early = [calls_of(lambda: stages.enter(Stage.FORWARD)), calls_of(lambda: stages.close_step(1))]
    for _ in range(1000):
        stages.enter(Stage.FORWARD)
        stages.close_step(512)
    late = [calls_of(lambda: stages.enter(Stage.FORWARD)), calls_of(lambda: stages.close_step(1))]
    assert early == late
    assert max(late) < 50


def test_it_loads_no_torch() -> None:
    run = subprocess.run(
        [sys.executable, "-c", "import sys, weft.train.stages; print('torch' in sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(Path(weft.__file__).parents[1])},
    )
    assert run.stdout.strip() == "False"


def test_the_page_names_every_stage_with_its_meaning() -> None:
    page = DOCS.read_text()
    for stage in ALL:
        kind = "exposed" if stage.exposed else "busy"
        row = f"| `{stage}` | {kind} | {stage.resource or '–'} | {stage.meaning} |"
        assert row in page
