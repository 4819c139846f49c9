"""A worker gets a place when there is one, wherever it is, and its end is told once."""

from signal import SIGKILL, SIGTERM
from typing import cast

from weft.agent.messages import Kill, Message, Start
from weft.agent.plan import Plan
from weft.agent.workers.crew import Crew
from weft.agent.workers.places import HEAD_SEAT, Places, Seat, Standing
from weft.agent.workers.processes import Processes


class Machine:
    """In place of processes: what was started here and what was signalled."""

    def __init__(self) -> None:
        self.started: list[tuple[int, Standing, tuple[int, ...]]] = []
        self.signals: list[tuple[int, int]] = []
        self.plans: list[Plan] = []

    def start(self, worker: int, standing: Standing, devices: tuple[int, ...], plan: Plan) -> None:
        self.started.append((worker, standing, devices))
        self.plans.append(plan)

    def signal(self, worker: int, number: int) -> None:
        self.signals.append((worker, number))


class Scene:
    """A crew, and all that it says."""

    def __init__(self, *seats: Seat) -> None:
        self.machine = Machine()
        self.orders: list[tuple[int, Message]] = []
        self.ended: list[tuple[int, int]] = []
        self.places = Places()
        for seat in seats:
            self.places.open(seat)
        self.crew = Crew(
            self.places,
            cast(Processes, self.machine),
            lambda seat, message: self.orders.append((seat, message)),
            lambda worker, code: self.ended.append((worker, code)),
            lambda worker, pid: None,
        )


HERE, THERE = Seat(HEAD_SEAT, 1, (0,)), Seat(4, 1, (0,))


def test_the_first_is_started_here_and_the_second_elsewhere() -> None:
    scene = Scene(HERE, THERE)
    scene.crew.start(0, 0, 2)
    scene.crew.start(1, 1, 2)
    assert scene.machine.started == [(0, Standing(0, 2, 0, 1, 0, 2), ())]
    assert scene.orders == [(4, Start(1, 1, 2, 0, 1, 1, 2, plan="replicated"))]
    scene.crew.signal(0, SIGTERM)
    scene.crew.signal(1, SIGTERM)
    assert scene.machine.signals == [(0, SIGTERM)]
    assert scene.orders[1:] == [(4, Kill(1, SIGTERM))]


def test_one_that_finds_no_place_waits_for_it() -> None:
    scene = Scene(HERE)
    scene.crew.start(0, 0, 1)
    scene.crew.start(1, 0, 1)
    assert len(scene.machine.started) == 1
    scene.crew.has_ended(0, 143)
    assert scene.ended == [(0, 143)]
    assert [worker for worker, _, _ in scene.machine.started] == [0, 1]


def test_one_that_waits_takes_a_seat_that_comes() -> None:
    scene = Scene(HERE)
    scene.crew.start(0, 0, 2)
    scene.crew.start(1, 1, 2)
    assert not scene.orders
    scene.crew.open(THERE)
    assert [seat for seat, _ in scene.orders] == [THERE.number]


def test_one_that_waits_can_be_killed() -> None:
    scene = Scene(HERE)
    scene.crew.start(0, 0, 1)
    scene.crew.start(1, 0, 1)
    scene.crew.signal(1, SIGKILL)
    assert scene.ended == [(1, -SIGKILL)]
    scene.crew.has_ended(0, 0)
    assert len(scene.machine.started) == 1
    assert not scene.machine.signals


def test_a_lost_seat_takes_its_workers_along_once() -> None:
    scene = Scene(HERE, THERE)
    scene.crew.start(0, 0, 2)
    scene.crew.start(1, 1, 2)
    scene.places.withdraw(4)
    scene.crew.lose(4)
    scene.crew.has_ended(1, 75)
    assert scene.ended == [(1, -SIGKILL)]
    assert scene.crew.running == (0,)


def test_a_device_goes_with_its_place() -> None:
    scene = Scene(Seat(HEAD_SEAT, 2, (2, 5), by_device=True))
    scene.crew.start(0, 0, 2)
    scene.crew.start(1, 1, 2)
    assert [devices for _, _, devices in scene.machine.started] == [(2,), (5,)]


def test_a_launcher_sees_all_devices() -> None:
    scene = Scene(HERE)
    scene.crew.devices = (2, 5)
    scene.crew.start(0, 0, 1)
    assert scene.machine.started == [(0, Standing(0, 1), (2, 5))]


def test_workers_of_another_plan_stand_beside_those_of_the_old_one() -> None:
    """They warm up on the same devices, and the old ones keep theirs until they are let go."""
    scene = Scene(Seat(HEAD_SEAT, 2, (3, 5), by_device=True))
    for worker, plan in enumerate((Plan(), Plan(), Plan(tensor=2), Plan(tensor=2))):
        scene.crew.start(worker, worker % 2, 2, plan)
    assert [devices for _, _, devices in scene.machine.started] == [(3,), (5,), (3,), (5,)]
    scene.crew.start(4, 0, 2, Plan(tensor=2))
    assert len(scene.machine.started) == 4, "a plan has one worker for each device"


def test_a_follower_is_told_the_plan() -> None:
    scene = Scene(HERE, THERE)
    for worker in (0, 1):
        scene.crew.start(worker, worker, 2, Plan(tensor=2))
    ((_, start),) = scene.orders
    assert isinstance(start, Start)
    assert start.plan == "tensor=2"


def test_nobody_is_put_where_one_of_an_earlier_head_stands() -> None:
    """Unless it is of another plan: workers of both stand there for a while."""
    scene = Scene(HERE, THERE)
    scene.crew.inherit(0, HEAD_SEAT, 0, 77, Plan())
    scene.crew.start(1, 1, 2)
    assert [seat for seat, _ in scene.orders] == [4]
    scene.crew.start(2, 0, 2, Plan(tensor=2))
    assert [worker for worker, _, _ in scene.machine.started] == [2]
