"""The smallest client that the harness needs: one connection, one request at a time.

It knows nothing of Weft's own client, so that a test of that client, or of a fact about the API
server, cannot be fooled by a fault in it.
"""

import http.client
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from weft.model.errors import WorldError

JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

_TIMEOUT_SECONDS = 30
_IDLE_SECONDS = 60  # the server closes after 90
_FIRST_ERROR = 400


@dataclass(frozen=True)
class Answer:
    """What the server said."""

    status: int
    body: dict[str, Any]

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


class Rest:
    """A kept-alive connection to the API server as one user; close it, or use it in a `with`."""

    def __init__(self, port: int, ca: Path, token: str, address: str = "127.0.0.1") -> None:
        context = ssl.create_default_context(cafile=str(ca))
        self._connection = http.client.HTTPSConnection(
            address, port, context=context, timeout=_TIMEOUT_SECONDS
        )
        self._token = token
        self._used = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connection; the next request opens another."""
        self._connection.close()

    def send(self, method: str, path: str, body: object = None, content_type: str = JSON) -> Answer:
        """Any answer of the server, errors too."""
        status, raw = self.raw(method, path, body, content_type)
        try:
            parsed = json.loads(raw)
        except ValueError:
            parsed = None
        return Answer(status, parsed if isinstance(parsed, dict) else {"message": raw.decode()})

    def must(
        self, method: str, path: str, body: object = None, content_type: str = JSON
    ) -> dict[str, Any]:
        """The body of a good answer; a bad one is raised."""
        answer = self.send(method, path, body, content_type)
        if answer.status >= _FIRST_ERROR:
            raise WorldError(f"{method} {path}: {answer.status} {answer.message}")
        return answer.body

    def raw(
        self, method: str, path: str, body: object = None, content_type: str = JSON
    ) -> tuple[int, bytes]:
        headers: Mapping[str, str] = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": content_type,
            "Accept": f"{JSON}, */*",
        }
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        self._avoid_idle()
        try:
            self._connection.request(method, path, body=data, headers=headers)
            response = self._connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def _avoid_idle(self) -> None:
        """Do not trust a connection that the server may be closing at this moment."""
        now = time.monotonic()
        if now - self._used > _IDLE_SECONDS:
            self.close()
        self._used = now
