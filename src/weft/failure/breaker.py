"""A breaker for what many jobs need: while it is open nobody is started in vain.

When a store or a registry goes down, hundreds of jobs fail within minutes. Each alone would blame
its program or its nodes and come again and again. Together they say where the fault is: several
jobs, of several users, on one service, within minutes. Then nobody is blamed, jobs that need the
service wait and are told so, and only a probe asks whether it answers. When it does, all of them
come back, spread over a while, so that they do not bring it down again.

Lines of a log are written by users. Jobs of one user alone therefore open it for that user alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from weft.failure.retry import drawn
from weft.model.ids import JobId, TenantId

MOST_STRIKES: Final = 64
ASK_AGAIN_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerTerms:
    """How many jobs within how long open it, how often it is probed, how slowly all come back."""

    jobs: int = 5
    users: int = 2
    window_seconds: float = 600.0
    probe_seconds: float = 30.0
    spread_seconds: float = 80.0


TERMS: Final = BreakerTerms()


@dataclass(frozen=True, slots=True)
class Strike:
    """A job that failed on the service."""

    at_seconds: float
    job: JobId
    user: TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """One service: closed, open for a user, open for all, or closed again and letting all back."""

    service: str
    strikes: tuple[Strike, ...] = ()
    opened_seconds: float | None = None
    user: TenantId | None = None  # open for this one alone
    failed_jobs: int = 0  # that opened it
    probed_seconds: float | None = None
    answered_seconds: float | None = None
    heard_seconds: float | None = None  # when a probe last came back, whatever it said

    @property
    def is_open(self) -> bool:
        return self.opened_seconds is not None

    def told(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "service": self.service,
            "strikes": [[one.at_seconds, one.job, one.user] for one in self.strikes],
            "opened_seconds": self.opened_seconds,
            "user": self.user,
            "failed_jobs": self.failed_jobs,
            "probed_seconds": self.probed_seconds,
            "answered_seconds": self.answered_seconds,
            "heard_seconds": self.heard_seconds,
        }

    def as_of(self, at_seconds: float) -> "Breaker":
        """Where the clock was set back since."""

        def by_now(then: float | None) -> float | None:
            return None if then is None else min(then, at_seconds)

        return replace(
            self,
            strikes=tuple(
                replace(one, at_seconds=min(one.at_seconds, at_seconds)) for one in self.strikes
            ),
            opened_seconds=by_now(self.opened_seconds),
            probed_seconds=by_now(self.probed_seconds),
            answered_seconds=by_now(self.answered_seconds),
            heard_seconds=by_now(self.heard_seconds),
        )

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> "Breaker":
        """What `told` told."""
        strikes = tuple(Strike(at, JobId(job), TenantId(user)) for at, job, user in told["strikes"])
        return cls(**{**told, "strikes": strikes})


@dataclass(frozen=True, slots=True)
class Hold:
    """Whether a job that needs the service may start; if not, when to ask again, and why."""

    until_seconds: float | None = None
    why: str = ""


FREE: Final = Hold()


def strike(breaker: Breaker, one: Strike, terms: BreakerTerms = TERMS) -> Breaker:
    """A job has failed on the service."""
    since = one.at_seconds - terms.window_seconds
    others = (old for old in breaker.strikes if old.at_seconds > since and old.job != one.job)
    recent = (*others, one)[-MOST_STRIKES:]
    struck = replace(breaker, strikes=recent)
    if breaker.is_open and breaker.user is None:
        return struck
    jobs = {old.job for old in recent}
    if len(jobs) >= terms.jobs and len({old.user for old in recent}) >= terms.users:
        return _opened(struck, one.at_seconds, len(jobs), None)
    own = {old.job for old in recent if old.user == one.user}
    if not breaker.is_open and len(own) >= terms.jobs:
        return _opened(struck, one.at_seconds, len(own), one.user)
    return struck


def hold(
    breaker: Breaker, job: JobId, user: TenantId, at_seconds: float, terms: BreakerTerms = TERMS
) -> Hold:
    """What holds for a job that has failed on the service, or says that it needs it."""
    if breaker.is_open and breaker.user in (None, user):
        due = probe_due_seconds(breaker, terms)
        until = due if due > at_seconds else at_seconds + ASK_AGAIN_SECONDS
        why = f"{breaker.service} does not answer: {breaker.failed_jobs} jobs failed on it"
        return Hold(until, f"{why}; it is probed, and all go on when it answers")
    if breaker.answered_seconds is None:
        return FREE
    back = breaker.answered_seconds + terms.spread_seconds * drawn(job, breaker.answered_seconds)
    if at_seconds >= back:
        return FREE
    return Hold(back, f"{breaker.service} answers again: jobs come back one after the other")


def probe_due_seconds(breaker: Breaker, terms: BreakerTerms = TERMS) -> float:
    """When an open breaker's service is to be asked next; at once after it opened."""
    if breaker.opened_seconds is None:
        return float("inf")
    if breaker.probed_seconds is None or breaker.probed_seconds < breaker.opened_seconds:
        return breaker.opened_seconds
    return breaker.probed_seconds + terms.probe_seconds


def probed(breaker: Breaker, at_seconds: float, *, answers: bool) -> Breaker:
    """What a probe found: a service that answers is open to all again."""
    asked = replace(breaker, probed_seconds=at_seconds, heard_seconds=at_seconds)
    if not (answers and breaker.is_open):
        return asked
    return replace(asked, strikes=(), opened_seconds=None, user=None, answered_seconds=at_seconds)


def _opened(
    breaker: Breaker, at_seconds: float, failed_jobs: int, user: TenantId | None
) -> Breaker:
    return replace(
        breaker,
        opened_seconds=at_seconds,
        failed_jobs=failed_jobs,
        user=user,
        answered_seconds=None,
    )
