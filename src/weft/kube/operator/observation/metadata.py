"""What every object of the API server has: whose it is, and when things were."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from weft.kube.names import GROUP, JOB_KIND

Raw = Mapping[str, Any]


def parse_time(text: str) -> float:
    """Seconds since 1970 of an RFC 3339 time."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def controller_of(meta: Raw) -> str:
    """The uid of the object that made this one; empty where nobody says so."""
    for owner in meta.get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner["uid"])
    return ""


def is_training_job(owner: Raw) -> bool:
    """Whether an owner reference names a TrainingJob, of whatever version of the API."""
    group = str(owner.get("apiVersion", "")).partition("/")[0]
    return group == GROUP and owner.get("kind") == JOB_KIND


def controlling_job(meta: Raw) -> str:
    """The name of the TrainingJob that controls this object; empty if none does."""
    for owner in meta.get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner["name"]) if is_training_job(owner) else ""
    return ""
