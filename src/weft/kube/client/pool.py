"""Connections that are dropped at once when they are not kept.

Over TLS a connection says goodbye and waits for the answer, for up to half a minute. After a
time-out nobody may be there to answer, and a loop that ends meanwhile leaves the socket open.
"""

from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler


class Pool(aiohttp.TCPConnector):
    """A pool without a bound: who calls has one of his own, and watches need none."""

    def __init__(self, **rest: Any) -> None:
        super().__init__(limit=0, **rest)

    def _release(
        self,
        key: Any,  # noqa: ANN401
        protocol: "ResponseHandler",
        *,
        should_close: bool = False,
    ) -> None:
        if (should_close or protocol.should_close) and protocol.transport is not None:
            protocol.transport.abort()
        super()._release(key, protocol, should_close=should_close)
