"""What the operator writes down as it goes: one JSON object per line, on standard error.

    log = Log("operator")
    with in_round("7-1042"):
        log.info("job_preempted", job="lab/vit", by="lab/llama", lost_seconds=41.5)

A line is an event and its fields, not prose, and lines of one round share its id. What the levels
mean:

ERROR    Weft cannot do something that it must do, and a person has to act
WARNING  something went wrong, and Weft goes on by itself
INFO     a job, queue, node or the leadership changed: a handful of lines in the life of a job
DEBUG    each round, each write, each refused report

Text may come from tenants, so a line never carries it raw: it is ASCII without control characters,
no longer than 16 KB, with few and short fields, and whatever looks like a credential is cut out.
"""

import json
import logging
import math
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, TextIO

MOST_LINE_CHARS: Final = 16_384
MOST_TEXT_CHARS: Final = 2_048
MOST_TRACE_CHARS: Final = 8_192
MOST_FIELDS: Final = 32
MOST_ITEMS: Final = 20
MOST_DEPTH: Final = 3
MOST_BITS: Final = 64
REDACTED: Final = "[redacted]"
OWN: Final = "weft"

_round: ContextVar[str] = ContextVar("round", default="")


@contextmanager
def in_round(id: str) -> Iterator[None]:
    """Every line written inside carries this id; tasks started inside inherit it."""
    before = _round.set(id)
    try:
        yield
    finally:
        _round.reset(before)


class Log:
    """A named log of events with fields."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"{OWN}.{name}")

    def debug(self, event: str, /, **fields: Any) -> None:
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: Any) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: Any) -> None:
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, /, *, trace: BaseException | None = None, **fields: Any) -> None:
        """`trace` is an error that nobody expected: its place in the code is written too."""
        self._write(logging.ERROR, event, fields, trace)

    def _write(
        self, level: int, event: str, fields: Mapping[str, Any], trace: BaseException | None = None
    ) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "%s", event, exc_info=trace, extra={"event_fields": fields})


def write_logs(level: str = "INFO", stream: TextIO | None = None) -> None:
    """Let this process log as described above; other libraries speak up from WARNING on only."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(OWN).setLevel(level)
    logging.captureWarnings(True)
    logging.raiseExceptions = False  # a log that cannot be written must not stop the operator
    sys.excepthook = _log_crash


class LineFormatter(logging.Formatter):
    """Makes one line of JSON from any record, ours or a library's."""

    def format(self, record: logging.LogRecord) -> str:
        line = _line(record)
        if len(line) <= MOST_LINE_CHARS:
            return line
        return _dump({**_head(record), "cut": True, "event": _text(_event(record))[:256]})


def redact(text: str) -> str:
    """The text without anything that looks like a credential."""
    for pattern, instead in CREDENTIALS:
        text = pattern.sub(instead, text)
    return text


CREDENTIALS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END|\Z)", re.DOTALL), REDACTED),
    (re.compile(r"\beyJ[\w-]{8,}(\.[\w-]*){0,2}"), REDACTED),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}"), rf"\1 {REDACTED}"),
    (re.compile(r"\b(gh[pousr]_|github_pat_|glpat-|hf_|sk-|xox[abprs]-)[\w-]{8,}"), REDACTED),
    (re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{16}\b"), REDACTED),
    (re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b"), REDACTED),
    (re.compile(r"(://[^/\s:@]*):[^/\s@]+@"), rf"\1:{REDACTED}@"),
    (
        re.compile(
            r"(?i)((?:password|passwd|secret|token|api[_-]?key|access[_-]?key)[\"']?\s*[=:]\s*[\"']?)"
            r"[^\s\"',;&]{4,}"
        ),
        rf"\1{REDACTED}",
    ),
)
SECRET_KEY: Final = re.compile(r"(?i)(password|passwd|secret|token|authorization|api_?key)$")
KEY: Final = re.compile(r"[a-z][a-z0-9_]{0,47}")
UNSAFE_KEY: Final = re.compile(r"[^a-z0-9_]+")
HEAD: Final = frozenset({"at", "level", "log", "round", "event", "cut"})


def _line(record: logging.LogRecord) -> str:
    fields: Mapping[str, object] = getattr(record, "event_fields", {})
    line = _head(record) | {"event": _text(_event(record))}
    for key, value in list(fields.items())[:MOST_FIELDS]:
        line[_key(key)] = REDACTED if SECRET_KEY.search(key) else _plain(value)
    if len(fields) > MOST_FIELDS:
        line["cut"] = True
    return _dump(line | _error(record))


def _head(record: logging.LogRecord) -> dict[str, object]:
    seconds, fraction = divmod(record.created, 1)
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(fraction * 1000):03d}Z"
    head: dict[str, object] = {
        "at": at,
        "level": record.levelname,
        "log": record.name.removeprefix(f"{OWN}."),
    }
    round_id = _round.get()
    return head | ({"round": _text(round_id)} if round_id else {})


def _error(record: logging.LogRecord) -> dict[str, str]:
    if not record.exc_info or record.exc_info[1] is None:
        return {}
    error = record.exc_info[1]
    trace = redact(logging.Formatter().formatException(record.exc_info))
    return {"error": _text(f"{type(error).__name__}: {error}"), "trace": trace[-MOST_TRACE_CHARS:]}


def _event(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):
        return str(record.msg)


def _key(key: str) -> str:
    """A field may not pretend to be part of the line's head, nor be more than a short name."""
    if KEY.fullmatch(key) and key not in HEAD:
        return key
    return ("field_" + UNSAFE_KEY.sub("_", key.lower()))[:48]


def _plain(value: object, depth: int = 1) -> object:
    """Something that JSON knows: finite, bounded, free of credentials."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value.bit_length() < MOST_BITS else f"a number of {value.bit_length()} bits"
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth < MOST_DEPTH and isinstance(value, Mapping):
        pairs = list(value.items())[:MOST_ITEMS]
        return {
            _text(str(key))[:64]: REDACTED
            if SECRET_KEY.search(str(key))
            else _plain(item, depth + 1)
            for key, item in pairs
        }
    if depth < MOST_DEPTH and isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item, depth + 1) for item in list(value)[:MOST_ITEMS]]
    return _text(_said(value))


def _said(value: object) -> str:
    if isinstance(value, bytes):
        return value[:MOST_TEXT_CHARS].decode("utf-8", "replace")
    try:
        return str(value)
    except Exception as error:  # whatever a foreign object raises, the line is still written
        return f"<{type(value).__name__}: {type(error).__name__}>"


def _text(text: str) -> str:
    """Redacted before it is cut, so that half a credential is not left over."""
    text = redact(text[: MOST_TEXT_CHARS * 8])
    return text if len(text) <= MOST_TEXT_CHARS else text[:MOST_TEXT_CHARS] + "…"


def _dump(line: Mapping[str, Any]) -> str:
    """All that is not printable ASCII is escaped: control codes, line and paragraph breaks,
    marks that reverse the direction of writing, lone surrogates. JSON leaves only DEL alone."""
    return json.dumps(line, ensure_ascii=True, separators=(",", ":")).replace("\x7f", "\\u007f")


def _log_crash(
    kind: type[BaseException], error: BaseException, place: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    logging.getLogger(f"{OWN}.process").critical("crashed", exc_info=(kind, error, place))
