"""What every request passes before any route: who asks, how many they are, how much they send.

A request without a known user is not looked at further. The body is read here to its end, within a
bound and within a time, so that nobody holds a route open by sending slowly.
"""

import asyncio
from collections.abc import Collection
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weft.api.answers import of_error, refused
from weft.api.peer import Peer, identity_of
from weft.model.errors import WeftError

MOST_BODY_BYTES: Final = 1024**2  # a job file has a quarter of it
BODY_SECONDS: Final = 10.0


class Gate:
    """Around the app. A request's `state` holds what the server knows of its connection."""

    def __init__(self, app: ASGIApp, *, admins: Collection[int]) -> None:
        self._app = app
        self._admins = frozenset(admins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"nothing but HTTP is spoken here, not {scope['type']}")
        refusal = self._refusal(scope)
        if refusal is not None:
            return await refusal(scope, receive, send)
        body = await _body(receive)
        if isinstance(body, Response):
            return await body(scope, receive, send)
        await self._app(scope, _again(body, receive), send)

    def _refusal(self, scope: Scope) -> Response | None:
        """Why this connection is not served; None, and its user is known from here on."""
        state = scope.setdefault("state", {})
        peer = state.get("peer")
        if not isinstance(peer, Peer):
            hint = "ask over the Unix socket"
            return refused(401, "who asks is not known", hint=hint, code="identity", close=True)
        if state.get("crowded"):
            hint = "end some of your commands that follow jobs"
            return refused(
                429, "you have too many connections", hint=hint, code="crowded", close=True
            )
        try:
            state["identity"] = identity_of(peer, self._admins)
        except WeftError as error:
            return of_error(error)
        return None


async def _body(receive: Receive) -> bytes | Response:
    """All of it, or the answer to somebody who sends too much or too slowly."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                body += message.get("body", b"")
                if len(body) > MOST_BODY_BYTES:
                    hint = f"send at most {MOST_BODY_BYTES:,} bytes"
                    return refused(413, "this is too much", hint=hint, code="request", close=True)
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        hint = f"send all of it within {BODY_SECONDS:.0f} s"
        return refused(
            408, "the request did not come to its end", hint=hint, code="request", close=True
        )


def _again(body: bytes, receive: Receive) -> Receive:
    """The body once more, in one piece; then whatever comes, such as the end of the connection."""
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def read() -> Message:
        return whole.pop() if whole else await receive()

    return read
