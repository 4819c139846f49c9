"""What happens to jobs of this machine, as notices to those who want to hear of it."""

from collections.abc import Mapping
from typing import Final

from weft.local.answers.views import past_failure
from weft.local.record.entry import Entry, Happening
from weft.model.ids import DEFAULT_QUEUE
from weft.model.state import State
from weft.notify.notice import Notice, Occasion
from weft.reconcile.moves import RESTARTED

PREEMPTED: Final = ("gives way to ", RESTARTED)
ENDS: Final = frozenset(state.name.capitalize() for state in State if state.final)


def notice_of(entry: Entry, happening: Happening) -> Notice | None:
    """A notice, if it is an occasion for one."""
    occasion = _occasion(happening)
    if occasion is None:
        return None
    failure = past_failure(entry, happening)
    return Notice(
        occasion=occasion,
        namespace=entry.owner.user,
        job=entry.name,
        queue=DEFAULT_QUEUE,
        at_seconds=happening.at,
        number=f"{entry.uid}-{entry.version}-{occasion.value}",
        text=happening.message or happening.what.lower(),
        state=entry.state.name.capitalize(),
        failure=failure,
    )


def asked_of(entry: Entry) -> Mapping[str, tuple[str, ...]]:
    """Whom its file wants to be told, by occasion."""
    told = entry.spec.get("notify") or {}
    return {one: tuple(told.get("to", ())) for one in told.get("on", ("failed", "ended"))}


def _occasion(happening: Happening) -> Occasion | None:
    if happening.failure is not None:
        return Occasion.FAILED
    if happening.what in ENDS:
        return Occasion.ENDED
    if happening.what == "Running":
        return Occasion.STARTED
    if happening.what == "Stopping" and happening.message.startswith(PREEMPTED):
        return Occasion.PREEMPTED
    return None
