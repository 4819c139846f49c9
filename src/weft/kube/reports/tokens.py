"""Which pod a token belongs to, as the API server vouches for it.

A worker brings the service-account token that its pod was given for the audience `weft`. Only the
API server can tell whether it is genuine, unexpired, and whether its pod still exists; so it is
asked (TokenReview), and its word is believed for at most a minute and never past the token's own
expiry. Refusals are believed for a shorter while. Tokens are remembered by their hash alone.

What is plainly no such token (not a JWT, not for this audience) is refused without asking. That is
a matter of cost, never of trust: nothing in an unreviewed token is believed.
"""

import asyncio
import binascii
import hashlib
import re
import time
from base64 import urlsafe_b64decode
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

import orjson

from weft.kube.logs import Log
from weft.kube.names import TOKEN_AUDIENCE
from weft.kube.reports.refusal import Refusal
from weft.model.errors import WorldError

REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
POD_NAME: Final = "authentication.kubernetes.io/pod-name"
POD_UID: Final = "authentication.kubernetes.io/pod-uid"
ACCOUNT: Final = re.compile(r"system:serviceaccount:([a-z0-9-]{1,63}):[a-z0-9.-]{1,253}")
JWT: Final = re.compile(r"[\w-]{1,2048}\.([\w-]{1,6144})\.[\w-]{1,2048}", re.ASCII)

ACCEPTED_SECONDS: Final = 60.0
REFUSED_SECONDS: Final = 10.0
MOST_TOKENS: Final = 20_000
MOST_REFUSED: Final = 5_000
MOST_REVIEWS: Final = 16
RETRY_SECONDS: Final = 2.0

log = Log("reports")


class Reviewer(Protocol):
    """The part of `client.api.Api` that is used here."""

    async def create(self, path: str, body: Mapping[str, Any], /) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Caller:
    """The pod that a token was made for."""

    namespace: str
    pod: str
    pod_uid: str


class Tokens:
    """Reviews tokens and remembers the answers; `reviewed` hears what came of each question."""

    def __init__(
        self,
        api: Reviewer,
        *,
        audience: str = TOKEN_AUDIENCE,
        reviewed: Callable[[str], None] = lambda outcome: None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._audience = audience
        self._reviewed = reviewed
        self._clock = clock
        self._wall_clock = wall_clock
        self._accepted: _Memory[Caller] = _Memory(MOST_TOKENS)
        self._refused: _Memory[bool] = _Memory(MOST_REFUSED)
        self._asking: dict[bytes, asyncio.Task[Caller | None]] = {}
        self._slots = asyncio.Semaphore(MOST_REVIEWS)

    def remembered(self, token: str) -> Caller | None:
        """Whose token it is, if that is known already; a `Refusal` if it is known to be bad."""
        if _claims(token, self._audience) is None:
            raise _no_such_token()
        digest, now = _digest(token), self._clock()
        known = self._accepted.get(digest, now)
        refused = self._refused.get(digest, now) is not None
        if known or refused:
            self._reviewed("remembered")
        if refused:
            raise _no_such_token()
        return known

    async def caller(self, token: str) -> Caller:
        """Whose token it is; asks the API server unless that is known. A `Refusal` if nobody's."""
        known = self.remembered(token)
        if known is not None:
            return known
        digest = _digest(token)
        task = self._asking.get(digest)
        if task is None:
            task = asyncio.create_task(self._ask(token, digest))
            self._asking[digest] = task
            task.add_done_callback(lambda done: self._asked(done, digest))
        found = await asyncio.shield(task)
        if found is None:
            raise _no_such_token()
        return found

    async def _ask(self, token: str, digest: bytes) -> Caller | None:
        async with self._slots:
            try:
                status = await self._review(token)
            except WorldError as error:
                self._reviewed("failed")
                log.warning("token_review_failed", error=error, hint=error.hint)
                raise Refusal(
                    503,
                    "the API server cannot vouch for tokens at the moment",
                    hint="Try again.",
                    retry_after_seconds=RETRY_SECONDS,
                ) from error
        found = _caller(status, self._audience)
        self._reviewed("accepted" if found else "refused")
        self._remember(token, digest, found)
        return found

    async def _review(self, token: str) -> Mapping[str, Any]:
        review = await self._api.create(
            REVIEWS,
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenReview",
                "spec": {"token": token, "audiences": [self._audience]},
            },
        )
        status = review.get("status")
        return status if isinstance(status, Mapping) else {}

    def _remember(self, token: str, digest: bytes, found: Caller | None) -> None:
        now = self._clock()
        if found is None:
            self._refused.put(digest, True, until=now + REFUSED_SECONDS)
            return
        claims = _claims(token, self._audience) or {}
        left_seconds = float(claims.get("exp", 0)) - self._wall_clock()
        self._accepted.put(digest, found, until=now + min(ACCEPTED_SECONDS, left_seconds))

    def _asked(self, task: "asyncio.Task[Caller | None]", digest: bytes) -> None:
        """Those who waited may be gone: look at the error, so that it counts as seen."""
        self._asking.pop(digest, None)
        if not task.cancelled():
            task.exception()


V = TypeVar("V")


class _Memory(Generic[V]):
    """What is believed until a certain time, by hash; the oldest is forgotten first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[bytes, tuple[float, V]] = OrderedDict()

    def get(self, digest: bytes, now: float) -> V | None:
        until, value = self._entries.get(digest, (now, None))
        if until > now:
            return value
        self._entries.pop(digest, None)
        return None

    def put(self, digest: bytes, value: V, *, until: float) -> None:
        self._entries[digest] = (until, value)
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)


def bearer(header: str | None) -> str:
    """The token in an `Authorization` header, or a `Refusal`."""
    scheme, _, token = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Refusal(
            401,
            "a token is required",
            hint="Send 'Authorization: Bearer' and the content of $WEFT_TOKEN_FILE.",
        )
    return token.strip()


def _no_such_token() -> Refusal:
    return Refusal(
        401,
        "this token is not accepted",
        hint="Read $WEFT_TOKEN_FILE again before each report: it changes every hour.",
    )


def _claims(token: str, audience: str) -> Mapping[str, Any] | None:
    """What a token says of itself, unproven, if it is one for this audience."""
    found = JWT.fullmatch(token)
    if found is None:
        return None
    coded = found[1]
    try:
        claims = orjson.loads(urlsafe_b64decode(coded + "=" * (-len(coded) % 4)))
    except (binascii.Error, ValueError):
        return None
    if not isinstance(claims, dict) or not isinstance(claims.get("exp"), (int, float)):
        return None
    audiences = claims.get("aud")
    return claims if audiences == audience or _contains(audiences, audience) else None


def _contains(audiences: object, audience: str) -> bool:
    return isinstance(audiences, list) and audience in audiences


def _caller(status: Mapping[str, Any], audience: str) -> Caller | None:
    """An authenticator that knows nothing of audiences names none, and then vouches for nothing."""
    if status.get("authenticated") is not True or not _contains(status.get("audiences"), audience):
        return None
    user = status.get("user") or {}
    account = ACCOUNT.fullmatch(str(user.get("username", "")))
    pod, uid = _only(user, POD_NAME), _only(user, POD_UID)
    return Caller(account[1], pod, uid) if account and pod and uid else None


def _only(user: Mapping[str, Any], name: str) -> str:
    values = (user.get("extra") or {}).get(name)
    return values[0] if isinstance(values, list) and len(values) == 1 else ""


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
