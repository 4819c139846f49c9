"""Asking a world over its Unix socket: the same questions that a backend answers.

One connection for each question; streams are iterators that may be closed. Standard library only,
because most of these are asked by a command that somebody waits for.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

from weft.api.backend import Farewell, Origin, Selection
from weft.api.connection import Json, Lines, Query, ask, follow, server_of
from weft.api.errors import NoAnswer, told
from weft.api.peer import Peer
from weft.view.failures import FailurePage
from weft.view.health import Finding
from weft.view.jobs import JobDetail, JobLine, JobPage, JobPicture, Standing
from weft.view.logs import LogLine, Which
from weft.view.node_page import NodePage
from weft.view.queues import QueueLine
from weft.view.use import Use
from weft.view.wire import from_json, to_json

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Health:
    """How a world is, and which version of Weft keeps it."""

    ok: bool
    version: str
    findings: tuple[Finding, ...]


class Stream(Generic[T]):
    """Items of an answer that goes on; it may be closed from another thread."""

    def __init__(self, lines: Lines, items: Iterator[T]) -> None:
        self._lines = lines
        self._items = items

    def __iter__(self) -> Iterator[T]:
        """Those that have not come yet; once the last has come it is closed."""
        with self:
            yield from self._items

    def close(self) -> None:
        self._lines.close()

    def __enter__(self) -> "Stream[T]":
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Client:
    """A world behind a socket. A job without an owner is one's own."""

    socket: Path

    def submit(
        self,
        spec: Mapping[str, Any],
        name: str,
        *,
        origin: Origin | None = None,
        dry_run: bool = False,
    ) -> JobDetail:
        asked = {"name": name, "spec": dict(spec), "dry_run": dry_run}
        asked |= {} if origin is None else {"origin": to_json(origin)}
        return from_json(JobDetail, ask(self.socket, "POST", "/v1/jobs", body=asked))

    def jobs(self, wanted: Selection) -> JobPage:
        query: Query = {
            **_whose(wanted.owner),
            "state": sorted(wanted.states),
            "queue": wanted.queue,
            "limit": wanted.most,
        }
        return from_json(JobPage, self._get("/v1/jobs", query))

    def job(self, name: str, *, owner: str | None = None) -> JobPicture:
        return from_json(JobPicture, self._get(f"/v1/jobs/{name}", {"owner": owner}))

    def why(self, name: str, *, owner: str | None = None) -> Standing:
        return from_json(Standing, self._get(f"/v1/jobs/{name}/why", {"owner": owner}))

    def cancel(self, name: str, *, owner: str | None = None, dry_run: bool = False) -> JobLine:
        target, asked = f"/v1/jobs/{name}/cancel", {"dry_run": dry_run}
        answer = ask(self.socket, "POST", target, query={"owner": owner}, body=asked)
        return from_json(JobLine, answer)

    def retry(self, name: str, *, owner: str | None = None) -> JobLine:
        answer = ask(self.socket, "POST", f"/v1/jobs/{name}/retry", query={"owner": owner})
        return from_json(JobLine, answer)

    def logs(
        self, name: str, which: Which, *, owner: str | None = None, follow_on: bool = False
    ) -> Stream[LogLine]:
        query: Query = {
            "owner": owner,
            "rank": None if which.ranks is None else sorted(which.ranks),
            "all": "true" if which.ranks is None else None,
            "epoch": None if which.epoch is None else str(which.epoch),
            "tail": None if which.tail is None else str(which.tail),
            "follow": "true" if follow_on else None,
        }
        lines = follow(self.socket, f"/v1/jobs/{name}/logs", query=query)
        return Stream(lines, _log_lines(lines))

    def changes(self, name: str, *, owner: str | None = None) -> Stream[JobDetail | None]:
        """The job now and after each change; None when it is deleted."""
        lines = follow(self.socket, f"/v1/jobs/{name}/changes", query={"owner": owner})
        return Stream(lines, map(_changed, _events(lines)))

    def news(self) -> Stream[int]:
        """A number now, and another one whenever something looks otherwise."""
        lines = follow(self.socket, "/v1/changes")
        return Stream(lines, map(_version, _events(lines)))

    def nodes(self) -> NodePage:
        return from_json(NodePage, self._get("/v1/nodes"))

    def failures(self, owner: str | None, days: float) -> FailurePage:
        query: Query = {**_whose(owner), "days": f"{days:g}"}
        return from_json(FailurePage, self._get("/v1/failures", query))

    def queues(self) -> tuple[QueueLine, ...]:
        return from_json(tuple[QueueLine, ...], self._get("/v1/queues"))

    def top(self, owner: str | None = None) -> Use:
        return from_json(Use, self._get("/v1/top", _whose(owner)))

    def health(self) -> Health:
        return from_json(Health, self._get("/healthz"))

    def server(self) -> Peer:
        """The process that listens, as the kernel says."""
        return server_of(self.socket)

    def stop(self, farewell: Farewell = Farewell.DRAIN) -> None:
        ask(self.socket, "POST", "/v1/stop", body={"jobs": farewell.value})

    def _get(self, target: str, query: Query | None = None) -> Json:
        return ask(self.socket, "GET", target, query=query)


def _whose(owner: str | None) -> dict[str, object]:
    return {"owner": owner} if owner else {"everyone": "true"}


def _log_lines(lines: Lines) -> Iterator[LogLine]:
    """Empty lines are signs of life."""
    for line in filter(None, lines):
        said = _parsed(line) or {}
        if "error" in said:
            raise told(said, status=200)
        if "end" in said:
            return
        yield _log_line(said)


def _log_line(said: Json) -> LogLine:
    try:
        text = said["text"].encode() if "text" in said else base64.b64decode(said["base64"])
        return LogLine(said["rank"], said["epoch"], text, said.get("node"))
    except (KeyError, ValueError, AttributeError) as error:
        raise _no_answer(said) from error


def _events(lines: Lines) -> Iterator[Json]:
    """Server-sent events, each told by an empty line; `:` begins a sign of life."""
    kind, data = b"", b""
    for line in lines:
        name, _, value = line.partition(b": ")
        if name == b"event":
            kind = value
        elif name == b"data":
            data = value
        elif not line and data:
            said = _parsed(data)
            if kind == b"error":
                raise told(said, status=200)
            if kind == b"end":
                return
            yield said
            kind, data = b"", b""


def _changed(said: Json) -> JobDetail | None:
    return None if said is None else from_json(JobDetail, said)


def _version(said: Json) -> int:
    if not isinstance(said, dict) or not isinstance(said.get("version"), int):
        raise _no_answer(said)
    return int(said["version"])


def _parsed(line: bytes) -> Json:
    """Every line and every event is an object, or null for a job that is gone."""
    try:
        said = json.loads(line)
    except ValueError as error:
        raise _no_answer(line) from error
    if said is not None and not isinstance(said, dict):
        raise _no_answer(line)
    return said


def _no_answer(said: object) -> NoAnswer:
    return NoAnswer(f"this is no answer: {said!r:.80}", hint="is it Weft's socket?")
