"""Reports to the endpoint that the operator really runs."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.agent.reports.endpoint import Endpoint, a_certificate, an_endpoint
from tests.kube.reports.reporting import LLAMA, TOKENS
from tests.waiting import HANG_SECONDS
from weft.agent.reports.report import Reporter, Said
from weft.kube.reports.payload import Report
from weft.kube.reports.server import WorkerIdentity

SAID = Said(step=120, epoch=3, total_steps=400)


async def reported(
    endpoint: Endpoint, *reports: Said, timeout_seconds: float = HANG_SECONDS
) -> bool:
    """Each is sent before the next is said, and the last is flushed."""
    reporter = Reporter(endpoint.destination(), every_seconds=0.0)
    for each in reports[:-1]:
        reporter.say(each)
        await asyncio.to_thread(reporter.turn)
    reporter.start()
    reporter.say(reports[-1])
    return await asyncio.to_thread(reporter.close, timeout_seconds)


def test_the_real_endpoint_hears_it(tmp_path: Path, socket_enabled: None) -> None:
    async def run() -> list[tuple[WorkerIdentity, Report]]:
        async with an_endpoint(tmp_path) as endpoint:
            last = replace(SAID, step=121, metrics={"loss": 2.0})
            assert await reported(endpoint, SAID, last)
            return endpoint.heard

    assert asyncio.run(run()) == [
        (LLAMA, Report(done=120, total=400)),
        (LLAMA, Report(done=121, total=400, metrics={"loss": 2.0})),
    ]


def test_the_real_endpoint_hears_how_wide_a_job_is(tmp_path: Path, socket_enabled: None) -> None:
    async def run() -> Report:
        async with an_endpoint(tmp_path) as endpoint:
            assert await reported(endpoint, replace(SAID, width=3, live=True))
            ((_, report),) = endpoint.heard
            return report

    report = asyncio.run(run())
    assert (report.metrics, report.live) == ({"width": 3}, True)


def test_the_real_endpoint_refuses_an_old_epoch(
    tmp_path: Path, socket_enabled: None, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> list[tuple[WorkerIdentity, Report]]:
        async with an_endpoint(tmp_path) as endpoint:
            endpoint.token_file.write_text(TOKENS["old epoch"])
            await reported(endpoint, SAID, SAID, SAID)
            return endpoint.heard

    assert asyncio.run(run()) == []
    (record,) = caplog.records
    fields = vars(record)["event_fields"]
    assert (fields["status"], fields["epoch"]) == (409, 3)
    assert fields["error"] == "this worker is of epoch 2, and its job is in epoch 3"
    assert TOKENS["old epoch"] not in repr(vars(record))


def test_the_real_endpoint_over_tls(tmp_path: Path, socket_enabled: None) -> None:
    """Its certificate is checked against the file that the pod is told of."""
    right, wrong = tmp_path / "right", tmp_path / "wrong"

    async def run() -> tuple[bool, bool, int]:
        async with an_endpoint(tmp_path, tls=a_certificate(right)) as endpoint:
            trusted = await reported(endpoint, SAID)
            endpoint.environ["WEFT_REPORT_CA_FILE"] = str(a_certificate(wrong).certificate)
            mistrusted = await reported(endpoint, SAID, timeout_seconds=0.3)
            return trusted, mistrusted, len(endpoint.heard)

    assert asyncio.run(run()) == (True, False, 1)
