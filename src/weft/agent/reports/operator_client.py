"""One request to the operator, on behalf of the pod that the request comes from.

Only the standard library is used, and neither a proxy nor a redirection is followed: the token is
for the operator alone. The kubelet renews the token, so it is read for each request.
"""

import json
import logging
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

REQUEST_SECONDS: Final = 5.0
MOST_RETRY_SECONDS: Final = 120.0
MOST_ANSWER_BYTES: Final = 4096
MOST_ERROR_CHARS: Final = 256
MOST_TOKEN_BYTES: Final = 16 * 1024
TOKEN: Final = re.compile(rb"[!-~]+")
FAILURES: Final = (OSError, HTTPException)  # of a request that was not answered

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where requests go, and on whose behalf."""

    url: str
    token_file: Path
    ca_file: Path | None = None
    job: str = ""
    epoch: int = 0

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "Destination | None":
        """As a worker's pod is told; None where nobody wants reports."""
        url, token_file = environ.get("WEFT_REPORT_URL"), environ.get("WEFT_TOKEN_FILE")
        if not url or not token_file:
            return None
        if not _is_address(url):
            logger.warning("report_address_not_usable", extra={"event_fields": {"url": url}})
            return None
        ca_file = environ.get("WEFT_REPORT_CA_FILE")
        epoch = environ.get("WEFT_EPOCH", "")
        return cls(
            url=url,
            token_file=Path(token_file),
            ca_file=Path(ca_file) if ca_file else None,
            job=environ.get("WEFT_JOB", ""),
            epoch=int(epoch) if epoch.isdecimal() else 0,
        )

    @property
    def token(self) -> str:
        """What the file holds now."""
        token = self.token_file.read_bytes()[:MOST_TOKEN_BYTES].strip()
        if not TOKEN.fullmatch(token):
            raise OSError(f"there is no token in {self.token_file}")
        return token.decode("ascii")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the operator said; `error` is its own words, `body` what it sent with a success."""

    status: int
    retry_after_seconds: float = 0.0
    error: str = ""
    body: bytes = b""


def post(destination: Destination, token: str, body: bytes) -> Answer:
    """One POST on a connection of its own; raises one of `FAILURES`."""
    return request(destination, token, "POST", "", body)


def request(
    destination: Destination,
    token: str,
    method: str,
    below: str = "",
    body: bytes | None = None,
    *,
    seconds: float = REQUEST_SECONDS,
) -> Answer:
    """One request to the address, or to what lies below it, on a connection of its own."""
    address = urlsplit(destination.url)
    host, port = address.hostname or "", address.port
    connection = _connection(destination, address.scheme, host, port, seconds)
    headers = {"Authorization": f"Bearer {token}", "Connection": "close"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    try:
        connection.request(method, (address.path or "/") + below, body, headers)
        response = connection.getresponse()
        said = response.read(MOST_ANSWER_BYTES)
        wait = _seconds(response.getheader("Retry-After"))
        return Answer(response.status, wait, _error(said), said)
    finally:
        connection.close()


def _is_address(url: str) -> bool:
    try:
        address = urlsplit(url)
        return address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:
        return False


def _connection(
    destination: Destination, scheme: str, host: str, port: int | None, seconds: float
) -> HTTPConnection:
    if scheme != "https":
        return HTTPConnection(host, port, timeout=seconds)
    context = ssl.create_default_context(cafile=destination.ca_file)
    return HTTPSConnection(host, port, timeout=seconds, context=context)


def _seconds(header: str | None) -> float:
    """`Retry-After` as the operator sends it; a date is left to our own patience."""
    if header is None or not header.strip().isdecimal():
        return 0.0
    return min(float(header), MOST_RETRY_SECONDS)


def _error(said: bytes) -> str:
    """The refusal's own words, where it is one of the operator's."""
    try:
        answer = json.loads(said)
    except (ValueError, RecursionError):
        return ""
    error = answer.get("error", "") if isinstance(answer, dict) else ""
    return str(error)[:MOST_ERROR_CHARS]
