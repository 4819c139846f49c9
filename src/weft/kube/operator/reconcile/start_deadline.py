"""How long pods that were created may take to run: not for ever.

A pod that nobody can bind, or whose image cannot be had, is withdrawn after a while, so that a
placement which cannot come about backs off and yields.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from weft.kube.operator.observation.pod import ObservedPod
from weft.kube.operator.reconcile.step import Look, Note

HOPELESS: Final = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)


def start_deadline(look: Look, pods: Sequence[ObservedPod]) -> tuple[Note, float | None, str]:
    """What to remember of these pods, when to look again, and why they are given up, if so."""
    homeless = [pod for pod in pods if not pod.node and pod.unschedulable]
    stuck = [pod for pod in pods if pod.stuck in HOPELESS]
    note = replace(
        look.note,
        unschedulable_since=_since(look.note.unschedulable_since, bool(homeless), look.now),
        stuck_since=_since(look.note.stuck_since, bool(stuck), look.now),
    )
    due = [
        *_deadline(note.unschedulable_since, look.rules.unschedulable_seconds, homeless),
        *_deadline(note.stuck_since, look.rules.stuck_seconds, stuck),
    ]
    passed = next((why for at, why in due if at <= look.now), "")
    return note, min((at for at, _ in due), default=None), passed


def _since(before: float | None, goes_on: bool, now: float) -> float | None:
    if not goes_on:
        return None
    return now if before is None else before


def _deadline(
    since: float | None, patience_seconds: float, pods: Sequence[ObservedPod]
) -> list[tuple[float, str]]:
    if since is None:
        return []
    first = pods[0]
    return [(since + patience_seconds, f"{first.name}: {first.unschedulable or first.stuck}")]
