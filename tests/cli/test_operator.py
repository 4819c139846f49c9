"""`weft operator`: options become one value, and each term gets a journal that replays."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.called import Weft
from weft.brain.brain import Brain, Settings
from weft.brain.event import Tick
from weft.cli.operator.term_journals import TermJournals
from weft.kube.operator.main import settings_of
from weft.kube.operator.options import OperatorOptions
from weft.model.errors import SpecError
from weft.model.queue import QueueTree
from weft.spec.recipe import make_recipe


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the operator was started with, in place of an operator."""
    calls: list[Any] = []
    monkeypatch.setattr("weft.kube.operator.main.run", lambda *given: calls.extend(given))
    return calls


def test_the_defaults_are_those_of_the_options(weft: Weft, started: list[Any]) -> None:
    assert weft("operator", "--identity", "me", "--run-as-user", "1000").status == 0
    assert started[0] == OperatorOptions(namespace="weft-system", identity="me")


def test_every_option_arrives(
    weft: Weft, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POD_NAMESPACE", "elsewhere")
    monkeypatch.setenv("POD_IP", "10.1.2.3")
    words = {
        "--kubeconfig": "kc",
        "--identity": "me",
        "--lease": "l",
        "--recipe": "las",
        "--default-image": "i",
        "--scheduler-name": "s",
        "--report-url": "u",
        "--report-ca": "/ca.crt",
        "--reports-service": "r",
        "--reports-port": "0",
        "--metrics-port": "1",
        "--tls-cert": "c",
        "--tls-key": "k",
        "--tls-ca": "a",
        "--journal": "j",
        "--workers": "none",
        "--backoff-seconds": "5",
        "--fence-seconds": "7",
        "--log-level": "debug",
    }
    assert weft("operator", *(word for pair in words.items() for word in pair)).status == 0
    assert started[0] == OperatorOptions(
        namespace="elsewhere",
        identity="me",
        kubeconfig="kc",
        lease="l",
        recipe="las",
        default_image="i",
        scheduler_name="s",
        report_url="u",
        report_ca="/ca.crt",
        reports_service="r",
        pod_ip="10.1.2.3",
        reports_port=0,
        metrics_port=1,
        run_as_user=None,
        tls_cert="c",
        tls_key="k",
        tls_ca="a",
        journal="j",
        workers="none",
        backoff_seconds=5.0,
        fence_seconds=7.0,
        log_level="DEBUG",
    )


def test_half_a_certificate_is_refused(weft: Weft, started: list[Any]) -> None:
    assert weft("operator", "--tls-cert", "c").status == 2
    assert not started


def test_what_is_no_address_is_refused(weft: Weft, started: list[Any]) -> None:
    assert weft("operator", "--pod-ip", "here").status == 2
    assert not started


def test_options_reach_workers_and_rules() -> None:
    options = OperatorOptions(
        namespace="a", identity="b", report_ca="/ca.crt", fence_seconds=7.0, default_image="i"
    )
    settings = settings_of(options)
    assert settings.workers.report_ca_path == "/ca.crt"
    assert settings.rules.fence_seconds == 7.0


def test_isolation_reaches_workers() -> None:
    options = OperatorOptions(
        namespace="a", identity="b", isolated=True, reached_from=("team=boards", "zone=")
    )
    workers = settings_of(options).workers
    assert workers.isolated
    assert workers.reached_from == (("team", "boards"), ("zone", ""))


def test_each_term_leaves_a_journal_that_replays(weft: Weft, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with closing(TermJournals(str(path))) as journals:
        for _ in range(2):
            journal = journals("backfill", QueueTree(), Settings())
            brain = Brain(make_recipe("backfill"), tree=QueueTree(), settings=Settings())
            for second in range(3):
                event = Tick(float(second))
                journal.record(event, brain.handle(event))
    for written in (path, tmp_path / "journal-2.jsonl"):
        assert "3 records of backfill replay bit for bit" in weft("replay", written).out


def test_without_a_path_nothing_is_written() -> None:
    assert TermJournals("")("backfill", QueueTree(), Settings()).records == 0


def test_a_running_journal_is_not_compressed() -> None:
    with pytest.raises(SpecError, match="not compressed"):
        TermJournals("journal.jsonl.gz")
