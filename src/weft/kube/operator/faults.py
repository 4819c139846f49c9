"""Which jobs could not be looked after, and who is set aside for it.

One job must not keep the operator from all others. What goes wrong with a job outside the brain is
that job's trouble: it is left alone for a while, with what it has, and told so. What goes wrong in
the middle of an event ends the term, because nobody knows then what the brain believes; whose event
it was is remembered here, beyond the term, and the second time the job is not handed to the brain.
"""

from dataclasses import dataclass
from typing import Final

from weft.brain.event import Event, JobSubmitted
from weft.failure.backoff import Backoff
from weft.kube.operator.status.patches import stamp
from weft.model.errors import BadEvent, ProtocolError

RESTS: Final = Backoff(first_seconds=30.0, cap_seconds=3600.0)
MOST_WHY: Final = 500


@dataclass(frozen=True, slots=True)
class Fault:
    """What was wrong with a job, how often, and until when it is set aside."""

    times: int
    last: float
    until: float
    why: str

    @property
    def told(self) -> str:
        """For its owner; the same words for as long as it is set aside."""
        return (
            f"The operator could not look after this job ({self.why}), leaves it as it is and "
            f"tries again at {stamp(self.until)}. Remedy: show this to whoever keeps the operator."
        )


def job_of(event: Event) -> str | None:
    """The job that an event speaks of."""
    if isinstance(event, JobSubmitted):
        return event.job.id
    return getattr(event, "job", None)


class Faults:
    """By job; it outlives terms."""

    def __init__(self) -> None:
        self._known: dict[str, Fault] = {}

    def blame(self, key: str, error: Exception, now: float, *, ended_term: bool) -> Fault:
        """Note it. A first fault that ended a term may have been the term's, and costs no rest."""
        before = self._known.get(key)
        lately = before is not None and now - before.last < 2.0 * RESTS.cap_seconds
        times = before.times + 1 if before is not None and lately else 1
        rests = times - 1 if ended_term else times
        until = now + RESTS.after(rests) if rests else now
        why = f"{type(error).__name__}: {error}"[:MOST_WHY]
        found = self._known[key] = Fault(times, now, until, why)
        return found

    def aside(self, key: str, now: float) -> Fault | None:
        """Whether it is set aside now."""
        found = self._known.get(key)
        return found if found is not None and now < found.until else None

    def ends_the_term(self, key: str, error: Exception) -> bool:
        """Where world and brain speak of different things, a fresh look helps, once."""
        return (
            isinstance(error, ProtocolError)
            and not isinstance(error, BadEvent)
            and key not in self._known
        )

    def forget(self, key: str) -> None:
        """The job is gone."""
        self._known.pop(key, None)
