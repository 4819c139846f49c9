"""The answers that workers get: JSON without exception, and refusals that say what to do."""

import math
from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web

from weft.kube.reports.refusal import Refusal

UNAUTHENTICATED = 401


def answer(body: Mapping[str, Any], *, status: int = 200) -> web.Response:
    return web.Response(
        body=orjson.dumps(body),
        status=status,
        content_type="application/json",
        headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
    )


def refused(refusal: Refusal) -> web.Response:
    response = answer({"error": str(refusal), "hint": refusal.hint}, status=refusal.status)
    if refusal.retry_after_seconds is not None:
        seconds = max(1, math.ceil(refusal.retry_after_seconds))
        response.headers["Retry-After"] = str(seconds)
    if refusal.status == UNAUTHENTICATED:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response
