"""What an API server answers when it does not do as asked, and what that means for the caller.

WorldError                    (`weft.model.errors`)
├── NoAccess                  no kubeconfig and no service account leads to an API server
└── ApiError                  any other refusal; base of what an API server answers
    ├── Invalid               400, 413, 415, 422: it will never be accepted as it stands
    ├── Forbidden             401, 403: these credentials may not do it
    ├── NotFound              404
    ├── Conflict              409: somebody else changed it first
    │   └── AlreadyExists     409: the name is taken; for a name that we derived this is success
    ├── Gone                  410: that point of the history is forgotten; list again
    ├── TooManyRequests       429: come back after `retry_after_seconds`
    └── Unavailable           5xx, no connection, connection lost, no answer in time

`Unavailable.ambiguous` tells whether a write may have happened all the same. The caller then has to
look before it writes again; nothing here ever repeats a call.
"""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from weft.model.errors import WorldError


class NoAccess(WorldError):
    """No kubeconfig and no service account leads to an API server."""


class ApiError(WorldError):
    """An API server did not do what it was asked; `retry_after_seconds` is its own wish, or 0."""

    default_hint = "Read the message: it comes from the API server."

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
        retry_after_seconds: float = 0.0,
    ) -> None:
        super().__init__(message, hint=self.default_hint)
        self.status = status
        self.reason = reason
        self.details: dict[str, Any] = dict(details or {})
        self.retry_after_seconds = retry_after_seconds


class Invalid(ApiError):
    """It will never be accepted as it stands."""

    default_hint = "Correct the fields that the message names."


class Forbidden(ApiError):
    """These credentials may not do it."""

    default_hint = "Log in again, or ask for the role that `weft doctor` finds missing."


class NotFound(ApiError):
    """There is no such object, or no such kind of object."""

    default_hint = "Check the name and the namespace, and that Weft's CRDs are installed."


class Conflict(ApiError):
    """Somebody else changed it first."""

    default_hint = "Read the object again and repeat the change on what it is now."


class AlreadyExists(Conflict):
    """The name is taken."""

    default_hint = "Choose another name, or delete the object that has it."


class Gone(ApiError):
    """That point of the history is forgotten."""

    default_hint = "List again and watch from there."


class TooManyRequests(ApiError):
    """The API server asks for a pause."""

    default_hint = "Wait; if it lasts, give Weft its own FlowSchema (the chart has one)."


class Unavailable(ApiError):
    """No answer that says what happened; `ambiguous` where a write may have been done."""

    default_hint = "Check that the API server is up and that this machine reaches it."

    def __init__(self, message: str, *, ambiguous: bool = False, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.ambiguous = ambiguous


def refusal(
    status: int, body: bytes, *, retry_after: str = "", wrote: bool, what: str = ""
) -> ApiError:
    """The error that an answer with this HTTP status and body means."""
    told = _told(body)
    return refusal_of(told, status=status, retry_after=retry_after, wrote=wrote, what=what)


def refusal_of(
    told: Mapping[str, Any], *, status: int, retry_after: str = "", wrote: bool, what: str = ""
) -> ApiError:
    """The error that a `Status` object means: an answer's body, or an ERROR event of a watch."""
    reason = str(told.get("reason") or "")
    details = told.get("details") or {}
    message = str(told.get("message") or reason or f"status {status}")
    facts: dict[str, Any] = {
        "status": status,
        "reason": reason,
        "details": details,
        "retry_after_seconds": _seconds(retry_after) or float(details.get("retryAfterSeconds", 0)),
    }
    text = f"{what}: {message}" if what else message
    if status >= SERVER_FAULT:
        return Unavailable(text, ambiguous=wrote, **facts)
    if reason == "AlreadyExists":
        return AlreadyExists(text, **facts)
    return BY_STATUS.get(status, ApiError)(text, **facts)


SERVER_FAULT: Final = 500

BY_STATUS: Final[Mapping[int, type[ApiError]]] = {
    400: Invalid,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    408: Unavailable,
    409: Conflict,
    410: Gone,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: TooManyRequests,
}


def _told(body: bytes) -> Mapping[str, Any]:
    """The `Status` in a body; what stands between us and the server may answer in plain text."""
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {"message": body[:200].decode(errors="replace").strip()}
    return told if isinstance(told, dict) else {"message": str(told)[:200]}


def _seconds(retry_after: str) -> float:
    return float(retry_after) if retry_after.isdecimal() else 0.0
