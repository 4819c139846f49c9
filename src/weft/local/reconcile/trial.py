"""A trial of a gang as a job of this machine."""

from weft.local.record.entry import Entry
from weft.model.trial import SUFFIX
from weft.reconcile.trial import trial_spec


def trial_entry(gang: Entry, uid: str, now: float) -> Entry:
    """As if its owner had submitted it."""
    return Entry(
        uid=uid,
        owner=gang.owner,
        name=f"{gang.name}{SUFFIX}",
        spec=trial_spec(gang.spec),
        origin=gang.origin,
        submitted_at=now,
        waiting_since=now,
    )
