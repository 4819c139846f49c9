"""Notices arrive, in the words of each way; nobody waits for them, and secrets stay secret."""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.notify.servers import a_hook, a_post_office
from tests.waiting import HANG_SECONDS, until
from weft.failure.diagnosis import diagnose
from weft.failure.lines import Line
from weft.failure.rulebook import shipped
from weft.failure.written import written
from weft.model.errors import SpecError
from weft.notify import outbox as module
from weft.notify.notice import Notice, Occasion
from weft.notify.outbox import MOST_TRIES, Outbox
from weft.notify.subscription import Rule, Subscriptions
from weft.notify.target import Slack, Target, Webhook
from weft.spec.notify_file import read_outbox
from weft.view.diagnosed import told_failure

pytestmark = pytest.mark.enable_socket
EVERYTHING = frozenset(Occasion)


def a_notice(text: str = "given up", line: str = "KeyError: 'x'", **more: Any) -> Notice:
    failure = told_failure(
        written(diagnose([Line(line, rank=3)], shipped())),
        namespace="anna",
        job="llama",
        queue="research",
        epoch=2,
        at=None,
        did=text,
    )
    known: dict[str, Any] = {
        "occasion": Occasion.FAILED,
        "namespace": "anna",
        "job": "llama",
        "queue": "research",
        "at_seconds": 0.0,
        "number": "u-1-failed",
        "text": text,
        "failure": failure,
    }
    return Notice(**known | more)


def an_outbox(
    pause: float = 0.01, clock: Callable[[], float] = time.monotonic, **targets: Target
) -> Outbox:
    everybody = Rule(EVERYTHING, tuple(targets))
    return Outbox(targets, Subscriptions((everybody,)), pause_seconds=pause, clock=clock)


def test_a_webhook_gets_a_cloud_event_with_its_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    with a_hook() as heard:
        outbox = an_outbox(hook=Webhook(heard.url, "weft/here", tmp_path / "token"))
        outbox.put(a_notice())
        until(lambda: heard.bodies, "the notice")
        outbox.close()
    (event,), (headers,) = heard.bodies, heard.headers
    assert event["specversion"] == "1.0" and event["type"] == "dev.weft.job.failed.v1"
    assert (event["id"], event["source"]) == ("u-1-failed", "weft/here")
    assert (event["subject"], event["time"]) == ("anna/llama", "1970-01-01T00:00:00+00:00")
    assert event["data"]["failure"]["rule"] == "python_semantic"
    assert headers["Content-Type"] == "application/cloudevents+json"
    assert headers["Authorization"] == "Bearer s3cret"


def test_slack_gets_plain_words_that_link_nowhere_and_call_nobody(tmp_path: Path) -> None:
    with a_hook() as heard:
        (tmp_path / "url").write_text(heard.url)
        outbox = an_outbox(team=Slack(tmp_path / "url"))
        outbox.put(a_notice(line="KeyError: '<!channel> <http://evil|here> & \x1b[2J'"))
        until(lambda: heard.bodies, "the notice")
        outbox.close()
    text = heard.bodies[0]["text"]
    assert "&lt;!channel&gt;" in text and "<" not in text and "\x1b" not in text
    assert "to do: mend the program" in text


def test_mail_arrives_and_no_line_of_a_log_becomes_a_header(tmp_path: Path) -> None:
    settings = tmp_path / "notify.yaml"
    with a_post_office() as heard:
        settings.write_text(
            f"targets:\n  mail: {{kind: mail, host: 127.0.0.1, port: {heard.port}, tls: false,"
            " sender: weft@example.org, to: [ml@example.org, ops@example.org]}\n"
            "rules:\n  - {on: [failed], to: [mail], queue: research}\n"
        )
        outbox = read_outbox(settings, "weft/here")
        outbox.put(a_notice("gone\r\nBcc: all@example.org"))
        outbox.put(a_notice(queue="other"))
        until(lambda: heard.mails, "the mail")
        outbox.close(1.0)
    (mail,) = heard.mails
    head = mail.partition("\r\n\r\n")[0]
    assert "Subject: [weft] anna/llama failed" in head and "To: ml@example.org, ops" in head
    assert not any(line.startswith("Bcc") for line in head.splitlines())


def test_one_that_does_not_answer_gets_a_few_tries_and_others_do_not_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with a_hook() as good, a_hook() as bad:
        bad.answers = [503] * 99
        outbox = an_outbox(bad=Webhook(bad.url), good=Webhook(good.url))
        outbox.put(a_notice())
        until(lambda: good.bodies, "the notice")
        until(lambda: outbox.dropped == 1, "the notice to be dropped")
        outbox.close()
    assert len(bad.bodies) == MOST_TRIES and len(good.bodies) == 1
    assert "503" in caplog.text and "secret-part" not in caplog.text


def test_what_is_refused_for_good_is_not_sent_again_and_a_token_is_not_carried_on() -> None:
    with a_hook() as heard:
        heard.answers = [403, 302]
        outbox = an_outbox(pause=60.0, hook=Webhook(heard.url))
        outbox.put(a_notice())
        until(lambda: outbox.dropped == 1, "the notice to be dropped")
        outbox.put(a_notice())
        until(lambda: len(heard.bodies) == 2, "the second notice")
        outbox.close()
        assert len(heard.bodies) == 2, "a redirect is not followed"


class Stuck:
    """A target that takes a notice and does not come back."""

    def __init__(self) -> None:
        self.taken, self.go_on, self.returned = (threading.Event() for _ in range(3))

    def send(self, notice: Notice) -> None:
        self.taken.set()
        self.go_on.wait(HANG_SECONDS)
        self.returned.set()


@contextmanager
def a_stuck_target() -> Iterator[Stuck]:
    target = Stuck()
    try:
        yield target
    finally:
        target.go_on.set()


def test_a_target_that_does_not_return_blocks_neither_put_nor_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 10)
    times = itertools.count()
    with a_stuck_target() as stuck:
        outbox = an_outbox(stuck=stuck, clock=lambda: float(next(times)))
        outbox.put(a_notice())
        until(stuck.taken.is_set, "the target to have the first notice")
        for _ in range(1_000):
            outbox.put(a_notice())
        outbox.close(5.0)
        assert not stuck.returned.is_set(), "neither waits for the target"
    assert outbox.dropped == 990


class Broken:
    def send(self, notice: Notice) -> None:
        raise ZeroDivisionError


def test_a_defect_of_a_target_silences_nobody(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    with a_hook() as heard:
        outbox = an_outbox(broken=Broken(), hook=Webhook(heard.url))
        outbox.put(a_notice())
        until(lambda: heard.bodies, "the notice")
        outbox.close()


def test_who_is_told_what() -> None:
    rules = (
        Rule(frozenset({Occasion.FAILED}), ("team", "boss"), queue="research"),
        Rule(EVERYTHING, ("log",), owner="ben"),
    )
    subscriptions = Subscriptions(rules)
    assert subscriptions.targets(a_notice(), {"failed": ("me", "team")}) == ("me", "team", "boss")
    assert subscriptions.targets(a_notice(occasion=Occasion.ENDED), {"failed": ("me",)}) == ()
    assert subscriptions.targets(a_notice(queue="x", namespace="ben"), {}) == ("log",)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("targets: {a: {kind: slack}}", "needs url_file"),
        ("targets: {a: {kind: webhook, url: 'file:///etc/passwd'}}", "no address"),
        ("targets: {}\nrules: [{on: [failed], to: [x]}]", "no target x"),
        ("targets: {}\nrules: [{on: [sneezed], to: [x]}]", "sneezed|started"),
        (
            "targets: {a: {kind: mail, host: h, sender: a@b, to: [c@d], tls: false,"
            " password_file: /p}}",
            "in clear",
        ),
        ("targets: {a: {kind: mail, host: h, sender: 'a b', to: [c@d]}}", "no mail address"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_runs(
    tmp_path: Path, text: str, complaint: str
) -> None:
    (tmp_path / "notify.yaml").write_text(text)
    with pytest.raises(SpecError) as told:
        read_outbox(tmp_path / "notify.yaml", "weft")
    assert any(part in f"{told.value} {told.value.hint}" for part in complaint.split("|"))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot be read"):
        read_outbox(tmp_path / "nothing", "weft")
