"""Where notices go. Secrets lie in files that are read when they are needed.

So they stand in no settings, no record and no error, and a new one holds from the next message on.
A redirect is not followed, since it would carry a token to somebody else.
"""

import json
import smtplib
import ssl
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from weft.model.errors import WorldError
from weft.notify import message
from weft.notify.notice import Notice

TIMEOUT_SECONDS: Final = 10.0
MOST_SECRET: Final = 4096
GONE: Final = range(400, 500)
BUSY: Final = (408, 425, 429)


class NotSent(WorldError):
    """It did not arrive; `again` says whether another try may help."""

    def __init__(self, why: str, *, hint: str, again: bool) -> None:
        super().__init__(why, hint=hint)
        self.again = again


class Target(Protocol):
    """A way to somebody."""

    def send(self, notice: Notice) -> None: ...


@dataclass(frozen=True, slots=True)
class Webhook:
    """Takes CloudEvents over HTTP, with a token if there is one."""

    url: str
    source: str = "weft"
    token_file: Path | None = None

    def send(self, notice: Notice) -> None:
        token = {} if self.token_file is None else {"Authorization": _bearer(self.token_file)}
        headers = {"Content-Type": "application/cloudevents+json", **token}
        _post(self.url, message.cloud_event(notice, self.source), headers)


@dataclass(frozen=True, slots=True)
class Slack:
    """Takes messages at an address that is itself the secret."""

    url_file: Path

    def send(self, notice: Notice) -> None:
        _post(_secret(self.url_file), message.slack(notice), {"Content-Type": "application/json"})


@dataclass(frozen=True, slots=True)
class Mail:
    """Takes mail; a name and a password go over TLS alone."""

    host: str
    port: int
    sender: str
    to: tuple[str, ...]
    user: str = ""
    password_file: Path | None = None
    tls: bool = True

    def send(self, notice: Notice) -> None:
        try:
            with smtplib.SMTP(self.host, self.port, timeout=TIMEOUT_SECONDS) as server:
                if self.tls:
                    server.starttls(context=ssl.create_default_context())
                if self.user and self.password_file is not None:
                    server.login(self.user, _secret(self.password_file))
                server.send_message(message.mail(notice, self.sender, self.to))
        except (smtplib.SMTPAuthenticationError, smtplib.SMTPRecipientsRefused) as error:
            raise _refused(f"mail to {self.host}", type(error).__name__, again=False) from None
        except (OSError, smtplib.SMTPException) as error:
            raise _refused(f"mail to {self.host}", type(error).__name__, again=True) from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_NoRedirects)


def _post(url: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
    """An error names the host and no more: the rest of an address may be a secret."""
    host = _host(url)
    try:
        request = urllib.request.Request(
            url, json.dumps(body).encode(), dict(headers), method="POST"
        )
        with _OPENER.open(request, timeout=TIMEOUT_SECONDS) as answer:
            answer.read(MOST_SECRET)
    except HTTPError as error:
        again = error.code not in GONE or error.code in BUSY
        with suppress(OSError):
            error.close()
        raise _refused(host, f"answered {error.code}", again=again) from None
    except (OSError, URLError, HTTPException, ValueError) as error:
        raise _refused(host, type(error).__name__, again=True) from None


def _refused(where: str, why: str, *, again: bool) -> NotSent:
    return NotSent(f"{where}: {why}", hint="check the target's address and secret", again=again)


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "a target"
    return parts.hostname or "a target"


def _bearer(file: Path) -> str:
    return f"Bearer {_secret(file)}"


def _secret(file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as text:
            return text.read(MOST_SECRET).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NotSent(
            f"{file} cannot be read: {type(error).__name__}",
            hint="the secret's file must be there and readable",
            again=True,
        ) from None
