"""The pieces of a worker's company: terms, fences, and borders at which turns begin and end."""

import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.waiting import HANG_SECONDS, until
from weft.agent.coordination.limits import Limits
from weft.agent.messages import Accompany, Granted, Names, Turn
from weft.train.company.fence import DeviceFence, Fence, HostFence
from weft.train.company.lease_line import LeaseLine
from weft.train.company.turns import Moment, Turns
from weft.train.company.usual import Usual
from weft.train.membership.contact import Contact
from weft.train.stages import Stage, Stages

CONTACT = Contact("", "job", 1, 0, "", Path("/dev/shm/weft-0"))


class Line:
    """A lease server that grants at once, and what it was told."""

    def __init__(self) -> None:
        self.told: list[Names | str] = []

    def ask(self, folder: str, turn: Turn, given_up: object) -> Granted:
        self.told.append("+" + ",".join(turn.kinds))
        return Granted(0.0)

    def give_back(self, kinds: Names, *, keep: bool = False) -> None:
        self.told.append("-" + ",".join(kinds))

    def close(self) -> None:
        self.told.append("closed")


class Loop:
    """A training loop's borders."""

    def __init__(self, members: tuple[int, ...] = (0,), fence: Fence | None = None) -> None:
        self.stages = Stages()
        self.moment: Moment | None = Moment(1, members, last=True)
        self.turns = Turns(
            CONTACT,
            self.stages,
            lambda: self.moment,
            fence or HostFence(),
            lambda: False,
            hang_seconds=60.0,
        )
        self.line = Line()
        self.turns._line = self.line  # type: ignore[assignment]
        self.turns.accompany(Accompany("/company", (0,)))

    def passes(self, *stages: Stage, last: bool = True) -> list[Names | str]:
        before = len(self.line.told)
        if self.moment is not None:
            self.moment = Moment(1, self.moment.members, last)
        for stage in stages:
            self.stages.enter(stage)
        return self.line.told[before:]


MICRO = (Stage.DATA_WAIT, Stage.FORWARD, Stage.BACKWARD, Stage.COMM_EXPOSED)
END = (Stage.COMM_EXPOSED, Stage.OPTIM, Stage.IDLE)


def test_one_alone_has_the_gpu_for_its_forward_and_backward_passes() -> None:
    loop = Loop()
    assert loop.passes(*MICRO[:-1]) == ["+gpu"]
    assert loop.passes(*MICRO[-1:]) == ["-gpu"]
    assert loop.passes(*END) == []


def test_one_alone_gives_way_while_it_waits_for_data() -> None:
    loop = Loop()
    loop.turns._usual.took(1.0)
    assert loop.passes(*MICRO, last=False) == ["+gpu", "-gpu"]
    assert loop.passes(*MICRO, *END) == ["+gpu", "-gpu"]


def test_a_gang_asks_once_in_a_step_and_never_in_a_collective() -> None:
    loop = Loop((0, 1))
    assert loop.passes(*MICRO, last=False) == ["+gpu,network"]
    assert loop.passes(*MICRO) == ["-gpu"]
    assert loop.passes(*END) == ["-network"]


def test_a_step_that_warms_up_asks_for_nothing() -> None:
    loop = Loop()
    loop.moment = None
    assert loop.passes(*MICRO, *END) == []


def test_a_stage_shorter_than_a_turn_asks_for_none() -> None:
    loop = Loop()
    loop.passes(*MICRO, *END)
    assert "+gpu" not in loop.passes(*MICRO, *END), "it took microseconds"
    loop.turns._usual.took(1.0)
    assert loop.passes(*MICRO, *END) == ["+gpu", "-gpu"]


def test_who_has_no_company_any_more_is_told_at_no_border() -> None:
    loop = Loop()
    loop.turns.accompany(Accompany(""))
    assert loop.passes(*MICRO, *END) == ["closed"]
    assert loop.stages.border is None


def test_waits_and_copies_are_booked_as_stages() -> None:
    loop = Loop()
    loop.passes(Stage.FORWARD)
    with loop.turns.moving():
        assert loop.stages.section()[0] is Stage.H2D
    assert loop.stages.section()[0] is Stage.FORWARD
    assert loop.line.told == ["+gpu"], "a copy is in the turn of its forward pass"


class Device:
    """A device that works behind its host."""

    def __init__(self) -> None:
        self.queued = self.done = self.looked = 0
        self.released: list[int] = []

    def mark(self) -> int:
        self.queued += 1
        return self.queued

    def has_passed(self, mark: int) -> bool:
        self.looked += 1
        return self.done >= mark

    def seconds_between(self, first: int, second: int) -> float:
        return 0.0

    def release(self, marks: Iterable[int]) -> None:
        self.released.extend(marks)

    def peak_bytes(self) -> int:
        return 0


def test_on_a_device_a_turn_ends_when_the_device_has_come_there() -> None:
    device = Device()
    fence = DeviceFence(device)
    loop = Loop(fence=fence)
    assert loop.passes(*MICRO, *END) == ["+gpu"], "the host is through, the device is not"
    waiting = threading.Thread(target=fence.wait)
    waiting.start()
    looked = device.looked
    until(lambda: device.looked > looked + 2, "the fence to look at the device")
    assert waiting.is_alive()
    device.done = 1
    waiting.join(HANG_SECONDS)
    assert loop.line.told == ["+gpu", "-gpu"]
    assert device.released == [1]


def test_a_term_follows_what_the_stage_takes() -> None:
    usual = Usual()
    assert usual.term_seconds == 1.0
    usual.took(0.01)
    assert usual.term_seconds == 1.0
    for _ in range(60):
        usual.took(2.0)
    assert usual.term_seconds == pytest.approx(6.0, rel=0.01)
    usual.took(1e6)
    assert usual.term_seconds == 10.0


def test_without_a_server_nobody_waits(tmp_path: Path) -> None:
    line = LeaseLine(CONTACT, "loop")
    turn = Turn(1, (0,), (0,), ("gpu",), 5.0, 1.0)
    assert line.ask(str(tmp_path), turn, lambda: False) is None
    line.give_back(("gpu",))
    assert line.ask(str(tmp_path / ("x" * 200)), turn, lambda: False) is None


def test_a_wait_for_a_turn_is_no_hang() -> None:
    limits = Limits(hang_seconds=2.0)
    assert limits.of("forward", proven=True) < 3.0 < limits.of("token_wait", proven=True)
    assert limits.of("token_wait", proven=True) < 100.0, "but it is bounded"
