"""One line per event, whatever tenants put into it, and no credential in any of them."""

import asyncio
import io
import json
import logging
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.kube.logs import (
    MOST_FIELDS,
    MOST_LINE_CHARS,
    REDACTED,
    LineFormatter,
    Log,
    in_round,
    redact,
    write_logs,
)

JWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJhdWQiOlsid2VmdCJdfQ.c2lnbmF0dXJl"
CANARIES = [
    JWT,
    f"Authorization: Bearer {JWT}",
    "Bearer c2VzYW1l-b3Blbg==",
    "bearer  c2VzYW1lLW9wZW4",
    "Basic c2VzYW1lOnNlc2FtZQ==",
    "ghp_c2VzYW1lb3BlbnNlc2FtZQ",
    "github_pat_c2VzYW1lb3BlbnNlc2FtZQ",
    "hf_c2VzYW1lb3BlbnNlc2FtZQ",
    "sk-proj-c2VzYW1lb3BlbnNlc2FtZQ",
    "AKIAC2VZYW1LB3BLBNNL",
    "c2vzyw.c2vzyw1lb3blbnnl",
    "https://user:c2VzYW1l@registry.example/v2",
    "password=c2VzYW1l",
    'api_key: "c2VzYW1lb3Blbg"',
    '{"token": "c2VzYW1lb3Blbg"}',
    "AWS_SECRET_ACCESS_KEY=c2VzYW1lb3Blbg",
    "WANDB_API_KEY=c2VzYW1lb3Blbg",
    "-----BEGIN EC PRIVATE KEY-----\nc2VzYW1lb3Blbg\n-----END EC PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nc2VzYW1lb3Blbg",
]
SECRET_PARTS = ("c2vzyw", "c2VzYW", "C2VZYW", "eyJ", "c2lnbmF0dXJl")

ESCAPES = [
    *(chr(code) for code in range(0x20)),
    *(chr(code) for code in range(0x7F, 0xA0)),
    "\x1b[2J\x1b[H",
    "\x1b]0;owned\x07",
    "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1bP$q\x1b\\",
    "\x9b31m",
    "a\nb",
    "a\r\nb",
    "a\rb",
    "a\x0bb\x0cc",
    "a\x85b",
    "a\u2028b\u2029c",
    '\n{"level":"ERROR","event":"forged"}',
    '"}\n{"event":"forged',
    "\u202egnp.exe",
    "\u2066x\u2069",
    "\u200b\ufeff",
    "\ud800",
    "\U000e0041",
    "\x00\x00",
    "\x08" * 50,
    "%s%n%d",
    "${jndi:ldap://x}",
]


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What is written from here on; the logging of the test run is put back afterwards."""
    root, own = logging.getLogger(), logging.getLogger("weft")
    before = (root.handlers[:], root.level, own.level, sys.excepthook, logging.raiseExceptions)
    stream = io.StringIO()
    write_logs("DEBUG", stream)
    yield stream
    logging.captureWarnings(False)
    root.handlers[:], root.level, own.level = before[0], before[1], before[2]
    sys.excepthook, logging.raiseExceptions = before[3], before[4]


def written(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def formatted(event: str, /, **fields: object) -> str:
    record = logging.LogRecord("weft.x", logging.INFO, "x.py", 1, "%s", (event,), None)
    record.event_fields = fields
    return LineFormatter().format(record)


# ------------------------------------------------------------------------------- what a line is


def test_a_line_is_an_event_and_its_fields(lines: io.StringIO) -> None:
    Log("operator").info("job_preempted", job="lab/vit", by="lab/llama", lost_seconds=41.5)
    (line,) = written(lines)
    assert line.pop("at").endswith("Z")
    assert line == {
        "level": "INFO",
        "log": "operator",
        "event": "job_preempted",
        "job": "lab/vit",
        "by": "lab/llama",
        "lost_seconds": 41.5,
    }


def test_lines_of_a_round_share_its_id(lines: io.StringIO) -> None:
    log = Log("operator")

    async def task() -> None:
        log.info("inside_a_task")

    async def run() -> None:
        with in_round("7-1"):
            log.info("first")
            child = asyncio.create_task(task())
            with in_round("7-2"):
                log.info("second")
            await child
        log.info("after")

    asyncio.run(run())
    found = [(line["event"], line.get("round")) for line in written(lines)]
    assert found == [
        ("first", "7-1"),
        ("second", "7-2"),
        ("inside_a_task", "7-1"),
        ("after", None),
    ]


def test_levels(lines: io.StringIO) -> None:
    write_logs("INFO", lines)
    log = Log("operator")
    log.debug("round_ended", jobs=3)
    log.info("leader_changed")
    log.warning("watch_ended", kind="pods")
    log.error("lease_lost")
    assert [line["level"] for line in written(lines)] == ["INFO", "WARNING", "ERROR"]


def test_libraries_speak_up_from_warnings_on(lines: io.StringIO) -> None:
    logging.getLogger("aiohttp").info("noise")
    logging.getLogger("aiohttp").warning("it %s", "matters")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    first, second = written(lines)
    assert (first["log"], first["event"]) == ("aiohttp", "it matters")
    assert second["log"] == "py.warnings"


def test_an_error_comes_with_its_place(lines: io.StringIO) -> None:
    try:
        raise RuntimeError(f"refused: Bearer {JWT}")
    except RuntimeError as error:
        Log("operator").error("round_failed", trace=error)
    (line,) = written(lines)
    assert line["error"] == f"RuntimeError: refused: Bearer {REDACTED}"
    assert "test_an_error_comes_with_its_place" in line["trace"]
    assert JWT not in lines.getvalue()


def test_a_crash_is_a_line_too(lines: io.StringIO) -> None:
    sys.excepthook(ValueError, ValueError("a\nb"), None)
    (line,) = written(lines)
    assert (line["level"], line["event"], line["error"]) == (
        "CRITICAL",
        "crashed",
        "ValueError: a\nb",
    )


def test_a_field_cannot_pretend_to_be_the_head(lines: io.StringIO) -> None:
    Log("x").info("real", at="never", level="ERROR", log="other", round="0", cut=1)
    (line,) = written(lines)
    assert (line["event"], line["level"], line["log"]) == ("real", "INFO", "x")
    assert (line["field_at"], line["field_level"]) == ("never", "ERROR")


# ----------------------------------------------------------------------------- hostile content


def is_one_safe_line(line: str) -> bool:
    return (
        line.isascii()
        and line.isprintable()
        and len(line) <= MOST_LINE_CHARS
        and isinstance(json.loads(line), dict)
    )


@pytest.mark.parametrize("text", ESCAPES, ids=ascii)
def test_escapes_end_in_one_harmless_line(text: str) -> None:
    for line in (
        formatted(text),
        formatted("e", field=text),
        formatted("e", nested={text: [text]}),
        formatted("e", **{text or "x": 1}),
        formatted("e", raw=text.encode("utf-8", "surrogatepass")),
    ):
        assert is_one_safe_line(line)
        assert "forged" not in json.loads(line)["event"] or text in json.loads(line)["event"]
    assert json.loads(formatted("e", field=text))["field"] == text


def test_the_id_of_a_round_is_escaped_too() -> None:
    with in_round("a\nb\x1b"):
        assert is_one_safe_line(formatted("e"))


@pytest.mark.parametrize("canary", CANARIES)
def test_no_canary_is_in_any_line(canary: str) -> None:
    for line in (
        formatted(canary),
        formatted(f"before {canary} after"),
        formatted("e", field=canary),
        formatted("e", nested={"a": ["x", canary]}),
        formatted("e", deep={"a": {"b": {"c": {"d": canary}}}}),
        formatted("e", error=RuntimeError(canary)),
        formatted("e", raw=canary.encode()),
        formatted("e", padded="x" * 2000 + " " + canary),
    ):
        assert not any(part in line for part in SECRET_PARTS), line


def test_fields_with_secret_names_are_cut_whatever_they_hold() -> None:
    line = formatted(
        "e", token="abc", db_password="abc", authorization=["abc"], a={"secret": "abc"}
    )
    assert "abc" not in line
    assert line.count(REDACTED) == 4


@pytest.mark.parametrize(
    "text",
    [
        "job lab/llama-sft started on node-17 with 8 GPUs",
        "1.2.3.4:8443 answered 409 Conflict",
        "weft.dev/v1alpha1 TrainingJob lab/secret-santa",
        "tokens per second: 81234",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "https://weft.weft-system.svc:8080/v1/jobs/lab/llama/report",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text) == text


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=15,
)


@given(st.text(), st.dictionaries(st.text(min_size=1), values, max_size=5))
def test_any_event_is_one_safe_line(event: str, fields: dict[str, object]) -> None:
    assert is_one_safe_line(formatted(event, **fields))


def test_huge_events_are_cut() -> None:
    for line in (
        formatted("x" * 10**6),
        formatted("e", field="y" * 10**6),
        formatted("e", **{f"f{number}": "z" * 5000 for number in range(100)}),
        formatted("e", many=list(range(10**5))),
        formatted("e", number=10**5000),
    ):
        assert is_one_safe_line(line)
    assert json.loads(formatted("e", **{f"f{n}": n for n in range(100)}))["cut"] is True
    assert len(json.loads(formatted("e", **{f"f{n}": n for n in range(100)}))) <= MOST_FIELDS + 5


def test_an_object_that_cannot_be_shown() -> None:
    class Silent:
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert json.loads(formatted("e", field=Silent()))["field"] == "<Silent: RuntimeError>"


def test_a_bad_format_of_a_library_is_still_a_line(lines: io.StringIO) -> None:
    arguments = ("one",)
    logging.getLogger("aiohttp").warning("%d of %d", *arguments)
    (line,) = written(lines)
    assert line["event"] == "%d of %d"


def test_a_stream_that_is_closed_stops_nobody() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter())
    stream.close()
    before, logging.raiseExceptions = logging.raiseExceptions, False
    try:
        handler.handle(logging.makeLogRecord({"msg": "x", "levelname": "INFO", "name": "weft"}))
    finally:
        logging.raiseExceptions = before
