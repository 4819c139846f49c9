"""Reports to the operator: paced, newest first, patient, silent when told so; never in the way."""

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.reports.endpoint import an_endpoint, pod_environment
from tests.waiting import HANG_SECONDS
from weft.agent.reports.operator_client import MOST_RETRY_SECONDS, Answer, Destination
from weft.agent.reports.profile import Profile
from weft.agent.reports.report import (
    EVERY_SECONDS,
    REFUSED_SECONDS,
    SOON_SECONDS,
    OrderAnswer,
    Reporter,
    Said,
    body_of,
)
from weft.agent.reports.speed import Measured
from weft.kube.reports import payload
from weft.kube.reports.limits import USUAL, Limits
from weft.kube.reports.payload import Report, Speed, Unit, read_weft
from weft.train.stages import Resource, Stage, Stages

PROFILE = Profile(2, 0.5, 0.1, 0.05, 0.3, 0.0, peak_bytes=1 << 30)
SAID = Said(step=120, epoch=3, total_steps=400)


def said(step: int, epoch: int = 3) -> Said:
    return Said(step=step, epoch=epoch)


@dataclass
class Desk:
    """A reporter whose operator is a list of answers, and whose time is the test's."""

    folder: Path
    answers: list[Answer | Exception] = field(default_factory=list)
    posts: list[tuple[float, str, int]] = field(default_factory=list)
    now: float = 1000.0
    while_posting: Callable[[], None] = lambda: None
    reporter: Reporter = field(init=False)

    def __post_init__(self) -> None:
        self.token("first")
        self.reporter = Reporter(
            Destination(
                url="http://operator/report", token_file=self.folder / "t", job="lab/llama", epoch=3
            ),
            transport=self.answer,
            clock=lambda: self.now,
            chance=Random(1),
        )

    def token(self, text: str) -> None:
        (self.folder / "t").write_text(text + "\n")

    def answer(self, destination: Destination, token: str, body: bytes) -> Answer:
        self.posts.append((self.now, token, json.loads(body)["step"]))
        self.while_posting()
        answer = self.answers.pop(0) if self.answers else Answer(200)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def say(self, step: int, epoch: int = 3) -> None:
        self.reporter.say(said(step, epoch))
        self.reporter.turn()

    def pass_by(self, seconds: float, every: float = 0.25) -> None:
        """Time goes by, with a look every so often."""
        for _ in range(round(seconds / every)):
            self.now += every
            self.reporter.turn()

    @property
    def steps(self) -> list[int]:
        return [step for _, _, step in self.posts]

    @property
    def gaps(self) -> list[float]:
        times = [at for at, _, _ in self.posts]
        return [later - earlier for earlier, later in pairwise(times)]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def events(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_one_in_ten_seconds_and_the_newest_wins(desk: Desk) -> None:
    for step in range(100):
        desk.say(step)
        desk.pass_by(0.25)
    assert desk.steps == [0, 39, 79]
    assert desk.gaps == [EVERY_SECONDS, EVERY_SECONDS]
    desk.pass_by(60)
    assert desk.steps == [0, 39, 79, 99]  # what was said is sent once


def test_news_do_not_wait_for_their_turn_but_come_no_closer_than_two_seconds(desk: Desk) -> None:
    desk.say(0)
    desk.pass_by(1)
    for step in range(1, 9):
        desk.reporter.say(said(step), soon=True)
        desk.pass_by(1)
    desk.pass_by(2)
    assert (set(desk.gaps), desk.steps[-1]) == ({SOON_SECONDS}, 8)
    desk.say(9)
    desk.pass_by(5)
    assert desk.steps[-1] != 9, "what is no news waits"


def test_news_do_not_hurry_an_operator_that_asks_for_patience(desk: Desk) -> None:
    desk.answers = [Answer(429, retry_after_seconds=8.0)]
    desk.say(0)
    desk.reporter.say(said(1), soon=True)
    desk.pass_by(7)
    assert desk.steps == [0]
    desk.pass_by(2)
    assert desk.steps == [0, 1]


def test_the_token_is_read_for_each_post(desk: Desk) -> None:
    desk.say(1)
    desk.token("second")
    desk.pass_by(10)
    desk.say(2)
    assert [token for _, token, _ in desk.posts] == ["first", "second"]


@pytest.mark.parametrize(
    "fault",
    [Answer(429), Answer(500), Answer(503), ConnectionRefusedError("no"), TimeoutError("late")],
)
def test_an_operator_that_is_away_is_asked_less_and_less(
    desk: Desk, fault: Answer | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    desk.answers = [fault] * 12
    desk.say(1)
    desk.pass_by(1500)
    doubling = [min(2.0**number, MOST_RETRY_SECONDS) for number in range(12)]
    assert all(
        most / 2 <= gap <= most + 0.25 for gap, most in zip(desk.gaps, doubling, strict=True)
    )
    assert desk.steps == [1] * 13
    assert [level for level, _ in events(caplog)] == ["WARNING"] + ["DEBUG"] * 11 + ["INFO"]
    assert events(caplog)[-1] == ("INFO", "reports_resumed")


def test_no_two_pods_try_again_in_step(tmp_path: Path) -> None:
    waits = set()
    for seed in range(20):
        desk = Desk(tmp_path, [Answer(503)] * 3)
        desk.reporter._chance = Random(seed)
        desk.say(1)
        desk.pass_by(30, every=0.01)
        waits.add(round(desk.gaps[0], 2))
    assert len(waits) > 10


def test_it_waits_as_long_as_it_is_told(desk: Desk) -> None:
    desk.answers = [Answer(429, 42.0), Answer(503, 2.0)]
    desk.say(1)
    desk.pass_by(60)
    assert desk.gaps == [42.0, 2.0]


def test_a_newer_report_takes_the_place_of_one_that_failed(desk: Desk) -> None:
    desk.answers = [Answer(503)]
    desk.while_posting = lambda: desk.reporter.say(said(2))
    desk.say(1)
    desk.while_posting = lambda: None
    desk.pass_by(60)
    assert desk.steps == [1, 2]


@pytest.mark.parametrize("status", [401, 403, 409, 410])
def test_a_worker_that_is_not_heard_falls_silent(
    desk: Desk, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    desk.answers = [Answer(status, error="its job is in epoch 4")]
    for step in range(25):
        desk.say(step)
        desk.pass_by(10)
    assert desk.steps == [0]
    assert events(caplog) == [("WARNING", "reports_refused")]
    fields = vars(caplog.records[0])["event_fields"]
    assert fields == {
        "job": "lab/llama",
        "epoch": 3,
        "told_epoch": 3,
        "status": status,
        "error": "its job is in epoch 4",
    }


def test_what_ends_the_silence(desk: Desk) -> None:
    desk.answers = [Answer(409)]
    desk.say(1)
    desk.pass_by(10)
    desk.say(2, epoch=4)
    assert desk.steps == [1, 2]
    desk.answers = [Answer(401)]
    desk.pass_by(10)
    desk.say(3, epoch=4)
    desk.token("second")
    desk.pass_by(10)
    desk.say(4, epoch=4)
    assert desk.steps == [1, 2, 3, 4]
    desk.answers = [Answer(403)]
    desk.pass_by(10)
    desk.say(5, epoch=4)
    desk.pass_by(REFUSED_SECONDS)
    desk.say(6, epoch=4)
    assert desk.steps == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("status", [302, 400, 404, 413, 422])
def test_a_report_that_is_rejected_is_not_sent_again(
    desk: Desk, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    desk.answers = [Answer(status)]
    desk.say(1)
    desk.pass_by(60)
    desk.say(2)
    assert desk.steps == [1, 2]
    assert events(caplog) == [("WARNING", "report_rejected")]


def test_a_token_that_cannot_be_read_is_no_end(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for content in (b"", b"\xff\xfe", b"two\nlines"):
        (desk.folder / "t").write_bytes(content)
        desk.say(1)
        desk.pass_by(3)
    (desk.folder / "t").unlink()
    desk.pass_by(20)
    assert desk.posts == []
    desk.token("there")
    desk.pass_by(60)
    assert desk.steps == [1]
    assert "two" not in caplog.text + repr([vars(record) for record in caplog.records])


def test_a_defect_in_here_is_logged_and_goes_no_further(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.answers = [RuntimeError("surprise")]
    desk.say(1)
    desk.pass_by(10)
    desk.say(2)
    assert desk.steps == [1, 2]
    assert events(caplog) == [("ERROR", "report_failed")]


def test_closing_sends_what_waits_without_delay(desk: Desk) -> None:
    desk.say(1)
    desk.say(2)
    assert desk.steps == [1]
    assert desk.reporter.close()
    assert desk.steps == [1, 2]
    desk.reporter.say(said(3))
    desk.pass_by(60)
    assert desk.steps == [1, 2]


def test_closing_tells_when_it_could_not(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.answers = [Answer(503)]
    desk.reporter.say(said(1))
    assert not desk.reporter.close()
    assert ("WARNING", "last_report_not_sent") in events(caplog)


def test_without_a_destination_nothing_is_sent() -> None:
    reporter = Reporter(None, transport=lambda *_: pytest.fail("posted"))
    reporter.start()
    reporter.say(SAID)
    reporter.turn()
    assert reporter.close()


# ---------------------------------------------------------------------------------- the thread


def threaded(desk: Desk, **settings: Any) -> Reporter:
    destination = desk.reporter._destination
    reporter = Reporter(destination, transport=desk.answer, chance=Random(1), **settings)
    reporter.start()
    return reporter


def test_the_thread_sends_the_first_at_once_and_the_last_at_the_end(desk: Desk) -> None:
    posted = threading.Event()
    desk.while_posting = posted.set
    reporter = threaded(desk, every_seconds=3600.0)
    reporter.say(said(1))
    assert posted.wait(HANG_SECONDS)
    reporter.say(said(2))
    reporter.say(said(3))
    assert reporter.close(HANG_SECONDS)
    assert desk.steps == [1, 3]


def test_a_post_that_hangs_holds_nobody_up(desk: Desk) -> None:
    posting, answered = threading.Event(), threading.Event()

    def hang() -> None:
        posting.set()
        answered.wait(HANG_SECONDS)

    desk.while_posting = hang
    desk.answers = [Answer(503)] * 5
    reporter = threaded(desk, every_seconds=0.0)
    reporter.say(said(1))
    assert posting.wait(HANG_SECONDS)
    reporter.say(said(2))
    assert not reporter.close(0.0)
    answered.set()
    reporter._thread.join(HANG_SECONDS)
    assert not reporter._thread.is_alive()  # it does not go on trying after the end
    assert desk.steps == [1]


# ------------------------------------------------------------------------------------ the body


def test_what_is_sent() -> None:
    whole = replace(
        SAID,
        checkpoint_step=100,
        samples=61_440,
        samples_per_second=830.5,
        metrics={"loss": 2.25, "accuracy": 0.5, "grad/norm": 1e-9},
        stages={"resources": {"gpu": 0.2, "storage": 0.01, "tape": 3.0}, "samples_per_second": 1.0},
        message="warm",
        width=2,
        live=True,
        speed=Measured(7, 2, 6.5, 10.0, shared=True),
        profile=PROFILE,
        profile_in_turns=replace(PROFILE, step_seconds=0.25),
        paused_seconds=0.125,
        offers=("data", "tensor"),
        order=OrderAnswer(3, reached=True, paused_seconds=0.5),
    )
    assert read_weft(body_of(whole)) == Report(
        unit=Unit.STEPS,
        done=120,
        total=400,
        saved=100,
        metrics={"samples": 61_440, "loss": 2.25, "throughput": 830.5, "width": 2},
        stage_seconds={"storage": 0.01, "gpu": 0.2},
        message="warm accuracy=0.5 grad/norm=1e-09",
        live=True,
        speed=Speed(7, 2, 6.5, 10.0, shared=True),
        profile=PROFILE,
        profile_in_turns=replace(PROFILE, step_seconds=0.25),
        paused_seconds=0.125,
        offers=("data", "tensor"),
        order=payload.OrderAnswer(3, reached=True, paused_seconds=0.5),
    )


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_speed_that_cannot_be_is_left_out(rate: float) -> None:
    assert read_weft(body_of(replace(SAID, speed=Measured(1, 2, rate, 10.0)))).speed is None


def test_a_loss_that_became_nan_does_not_hide_the_step() -> None:
    report = read_weft(body_of(replace(SAID, metrics={"loss": float("nan"), "lr": 0.1})))
    assert (report.done, report.metrics, report.message) == (120, {}, "loss=nan lr=0.1")


def test_what_contradicts_itself_is_left_out() -> None:
    report = read_weft(body_of(replace(SAID, total_steps=119, checkpoint_step=121, samples=-1)))
    assert (report.done, report.total, report.saved, report.metrics) == (120, None, None, {})
    assert read_weft(body_of(replace(SAID, step=-1))).done == 0


def test_a_profile_that_cannot_be_is_left_out() -> None:
    odd = replace(PROFILE, gpu_seconds=float("nan"))
    assert read_weft(body_of(replace(SAID, profile=odd))).profile is None
    known = replace(PROFILE, peak_bytes=None)
    assert read_weft(body_of(replace(SAID, profile=known))).profile == known


@pytest.mark.parametrize("loss", [-1e19, 1e19, True, "2.0", None])
def test_a_loss_out_of_bounds_is_left_out(loss: object) -> None:
    odd: dict[str, Any] = {"loss": loss}
    assert read_weft(body_of(replace(SAID, metrics=odd))).metrics == {}


def test_a_real_stage_report_goes_through() -> None:
    stages = Stages(clock=iter(range(100)).__next__)
    stages.add(Stage.CPU_PREP, 0.5)
    for stage in (Stage.DATA_WAIT, Stage.FORWARD, Stage.BACKWARD):
        stages.enter(stage)
    stages.close_step(64)
    told = stages.report(2, {"shard": 1}, 3)
    report = read_weft(body_of(replace(SAID, stages=json.loads(json.dumps(told)))))
    assert report.stage_seconds == {"storage": 1, "cpu": 0.5, "gpu": 2}
    assert report.metrics == {"throughput": 16}
    assert set(report.stage_seconds) <= set(Resource)


COUNTS = st.none() | st.integers() | st.integers(-3, 500)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
SAYINGS = st.builds(
    Said,
    step=st.integers(),
    epoch=st.integers(),
    total_steps=COUNTS,
    checkpoint_step=COUNTS,
    samples=COUNTS,
    samples_per_second=st.none() | st.floats() | st.integers(),
    metrics=st.dictionaries(st.just("loss") | st.text(), ANYTHING, max_size=20),
    stages=st.dictionaries(st.sampled_from(["resources", "samples_per_second"]), ANYTHING)
    | st.fixed_dictionaries(
        {"resources": st.dictionaries(st.sampled_from(["gpu", "cpu", "x"]), ANYTHING)}
    ),
    message=st.text(),
    speed=st.none()
    | st.builds(Measured, st.integers(), st.integers(), st.floats(), st.floats())
    | st.builds(Measured, st.just(1), st.just(2), st.floats(), st.floats()),
    paused_seconds=st.none() | st.floats(),
    offers=st.lists(st.text(), max_size=40).map(tuple),
    order=st.none()
    | st.builds(OrderAnswer, st.integers(), st.booleans(), st.text(), st.none() | st.floats()),
)


@given(SAYINGS)
def test_whatever_is_said_the_operator_takes_it(anything: Said) -> None:
    read_weft(body_of(anything))


# -------------------------------------------------------------------------- the real endpoint


def test_the_destination_is_what_the_pod_is_told(tmp_path: Path) -> None:
    environ = pod_environment("https://weft:8080/", tmp_path / "token", "/etc/weft/ca.crt")
    assert Destination.from_environment(environ) == Destination(
        url="https://weft:8080/v1/jobs/lab/llama/report",
        token_file=tmp_path / "token",
        ca_file=Path("/etc/weft/ca.crt"),
        job="lab/llama",
        epoch=3,
    )
    assert Destination.from_environment({}) is None


@pytest.mark.parametrize(
    "url", ["weft:8080", "ftp://weft/x", "http://", "http://[::1", "http://a:x"]
)
def test_an_address_that_is_none_is_logged(url: str, caplog: pytest.LogCaptureFixture) -> None:
    assert Destination.from_environment({"WEFT_REPORT_URL": url, "WEFT_TOKEN_FILE": "/t"}) is None
    assert events(caplog) == [("WARNING", "report_address_not_usable")]


@pytest.mark.parametrize("limits", [USUAL, Limits(reports_per_second=1e-6, reports_at_once=1)])
def test_the_real_endpoint_asks_for_patience(
    limits: Limits, tmp_path: Path, socket_enabled: None
) -> None:
    """A replica that does not lead says 503 and a noisy job is told 429: both name a time."""
    seen: list[Answer] = []

    async def run() -> None:
        async with an_endpoint(tmp_path, limits=limits) as endpoint:
            endpoint.leading = limits is not USUAL
            desk = Desk(tmp_path)
            reporter = desk.reporter
            reporter._destination = endpoint.destination()
            real = Reporter(None)._transport

            def watched(destination: Destination, token: str, body: bytes) -> Answer:
                seen.append(real(destination, token, body))
                desk.posts.append((desk.now, "", 0))
                return seen[-1]

            reporter._transport = watched
            for _ in range(2):
                reporter.say(SAID)
                await asyncio.to_thread(reporter.turn)
                desk.now += EVERY_SECONDS
            if limits is USUAL:
                endpoint.leading = True
                await asyncio.to_thread(reporter.turn)
                assert len(endpoint.heard) == 1

    asyncio.run(run())
    if limits is USUAL:
        assert [(answer.status, answer.retry_after_seconds) for answer in seen] == [
            (503, 2.0),
            (503, 2.0),
            (200, 0.0),
        ]
    else:
        assert [(answer.status, answer.retry_after_seconds) for answer in seen] == [
            (200, 0.0),
            (429, MOST_RETRY_SECONDS),
        ]
