"""Asking the app without a server: one request in, one answer out."""

import asyncio
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import orjson
from fastapi import FastAPI

from weft.api.peer import Peer

ROOT, ALICE, BOB = Peer(10, 0, 0), Peer(11, 60_001, 60_001), Peer(12, 60_002, 60_002)


@dataclass
class Answer:
    """What came back; of a stream what came before we left."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:  # noqa: ANN401 - any JSON
        return orjson.loads(self.body)


async def ask(
    app: FastAPI,
    method: str,
    path: str,
    *,
    peer: Peer | None = ROOT,
    query: dict[str, Any] | None = None,
    body: object = None,
    raw: bytes | None = None,
    into: Answer | None = None,
) -> Answer:
    """The answer; the reader leaves when nothing has come for a moment."""
    sent = raw if raw is not None else b"" if body is None else orjson.dumps(body)
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": quote(path).encode(),
        "query_string": urlencode(query or {}, doseq=True).encode(),
        "root_path": "",
        "scheme": "http",
        "headers": [(b"content-type", b"application/json")] if sent else [],
        "state": {} if peer is None else {"peer": peer},
    }
    messages: list[dict[str, Any]] = [{"type": "http.request", "body": sent, "more_body": False}]
    answer, quiet = into or Answer(), asyncio.Event()

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await quiet.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:  # noqa: ANN401 - a message of ASGI
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        else:
            answer.body += message.get("body", b"")
            if message.get("more_body"):
                asyncio.get_running_loop().call_later(0.02, quiet.set)

    await app(scope, receive, send)
    return answer
