"""Gates: what can stand between a waiting job and its seats, each with its reason.

The round asks them in this order and books the wait to the first that says no; an explanation
asks them all.
"""

from weft.brain.desk import Desk
from weft.model.kind import Kind
from weft.model.reason import ReasonCode


def never(desk: Desk, kind: Kind, queue: int, width: int) -> ReasonCode | None:
    """What no other job's end could change."""
    site = desk.fabric.site(kind)
    if width > site.largest_ever_gpus or (width == 0 and not site.hosted_ever):
        return ReasonCode.CONSTRAINT_NEVER
    if not desk.restricted:
        return None
    if desk.ledger.never(queue, width, firm=not kind.preemptible) is not None:
        return ReasonCode.QUOTA_NEVER
    return None


def quota(desk: Desk, kind: Kind, queue: int, width: int) -> ReasonCode | None:
    """Whether the queue and its ancestors have room for it now."""
    if not desk.restricted:
        return None
    firm = not kind.preemptible
    if desk.ledger.refusing(queue, width, firm=firm) is None:
        return None
    return ReasonCode.QUOTA_FIRM if firm else ReasonCode.QUOTA_LIMIT


def supply(desk: Desk, kind: Kind, width: int) -> ReasonCode:
    """Why no placement was found, given that none was."""
    if width == 0:
        return ReasonCode.CAPACITY_HOST
    if width > desk.free:
        return _too_few(desk, kind, width)
    if desk.fabric.site(kind).largest_gpus < width:
        return ReasonCode.HEALTH_LOST
    if width > desk.suitable_free(kind):
        return ReasonCode.CONSTRAINT_TYPE if kind.gpu_types else ReasonCode.FRAGMENTED
    if desk.reserved is not None:
        without = desk.recipe.place(desk.room, desk.fabric, kind, width)
        if without is not None:
            return ReasonCode.RESERVED
    return ReasonCode.FRAGMENTED


def _too_few(desk: Desk, kind: Kind, width: int) -> ReasonCode:
    if width <= desk.free_at_begin:
        return ReasonCode.PRIORITY_BEHIND
    if width > desk.fabric.site(kind).largest_gpus or width <= desk.free + desk.lost_gpus():
        return ReasonCode.HEALTH_LOST
    return ReasonCode.CAPACITY_BUSY
