"""Answers: a view as JSON, or an error as `{"error", "hint", "code"}`."""

import orjson
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from weft.api.errors import status_and_code
from weft.model.errors import WeftError

JSON = "application/json"
UNKNOWN_PLACE = {404: "there is nothing at this address", 405: "this address knows no such method"}


def viewed(view: object, status: int = 200) -> Response:
    """A view, or several; a number that JSON cannot write is null."""
    return Response(orjson.dumps(view), status, media_type=JSON)


def refused(status: int, error: str, *, hint: str = "", code: str, close: bool = False) -> Response:
    """An error; `close` where nothing more is wanted from whoever asked."""
    body = orjson.dumps({"error": error, "hint": hint, "code": code})
    return Response(body, status, {"Connection": "close"} if close else None, media_type=JSON)


def of_error(error: WeftError) -> Response:
    status, code = status_and_code(error)
    return refused(status, str(error), hint=error.hint, code=code)


async def on_weft_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, WeftError)
    return of_error(error)


async def on_invalid(_request: Request, error: Exception) -> Response:
    """The first thing that is wrong with a request, and where."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    hint = "see /openapi.json for what may be asked"
    return refused(422, f"{where}: {first['msg']}", hint=hint, code="spec")


async def on_http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = UNKNOWN_PLACE.get(error.status_code, error.detail)
    return refused(error.status_code, text, hint="see /openapi.json", code="request")


async def on_defect(_request: Request, _error: Exception) -> Response:
    """What nobody foresaw: its text may hold what is not for everybody's eyes."""
    hint = "the server's log has the rest"
    return refused(500, "the server failed at this", hint=hint, code="internal")
