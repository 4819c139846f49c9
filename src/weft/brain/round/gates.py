"""Gates: what can stand between a waiting job and its seats, each with its reason.

The round asks them in this order and books the wait to the first that says no; an explanation
asks them all.
"""

from dataclasses import replace
from typing import Final

from weft.brain.round.session import Session
from weft.model.ids import NodeId
from weft.model.kind import Kind
from weft.model.reason import ReasonCode

NOWHERE: Final[frozenset[NodeId]] = frozenset()


def never(session: Session, kind: Kind, queue: int, width: int) -> ReasonCode | None:
    """What no other job's end could change; nodes that it keeps off are kept off for a while."""
    site = session.fabric.site(replace(kind, avoid=NOWHERE) if kind.avoid else kind)
    if width > site.largest_ever_gpus or (width == 0 and not site.hosted_ever):
        return ReasonCode.CONSTRAINT_NEVER
    if not session.restricted:
        return None
    if session.ledger.never(queue, width, firm=not kind.preemptible) is not None:
        return ReasonCode.QUOTA_NEVER
    return None


def quota(session: Session, kind: Kind, queue: int, width: int) -> ReasonCode | None:
    """Whether the queue and its ancestors have room for it now."""
    if not session.restricted:
        return None
    firm = not kind.preemptible
    if session.ledger.refusing(queue, width, firm=firm) is None:
        return None
    return ReasonCode.QUOTA_FIRM if firm else ReasonCode.QUOTA_LIMIT


def supply(session: Session, kind: Kind, width: int) -> ReasonCode:
    """Why no placement was found, given that none was."""
    if width == 0:
        return ReasonCode.CAPACITY_HOST
    if session.is_kept_from(kind, width):
        return ReasonCode.RESERVED
    return _missing(session, kind, width)


def _missing(session: Session, kind: Kind, width: int) -> ReasonCode:
    if width > session.free:
        return _too_few(session, kind, width)
    if session.fabric.site(kind).largest_gpus < width:
        return ReasonCode.HEALTH_AVOIDED if kind.avoid else _out(session, width)
    if width > session.suitable_free(kind):
        return _picky(session, kind)
    if session.reserved is not None:
        without = session.recipe.place(session.room, session.fabric, kind, width)
        if without is not None:
            return ReasonCode.RESERVED
    return ReasonCode.FRAGMENTED


def _too_few(session: Session, kind: Kind, width: int) -> ReasonCode:
    if width <= session.free_at_begin:
        return ReasonCode.PRIORITY_BEHIND
    beyond = width > session.fabric.site(kind).largest_gpus
    if beyond and kind.avoid:
        return ReasonCode.HEALTH_AVOIDED
    if beyond or width <= session.free + session.lost_gpus():
        return _out(session, width)
    return ReasonCode.CAPACITY_BUSY


def _picky(session: Session, kind: Kind) -> ReasonCode:
    """Enough is free, on nodes that do not suit it or that have failed it."""
    if kind.avoid:
        return ReasonCode.HEALTH_AVOIDED
    picky = kind.gpu_types or session.fabric.suiting(kind) is not None
    return ReasonCode.CONSTRAINT_TYPE if picky else ReasonCode.FRAGMENTED


def _out(session: Session, width: int) -> ReasonCode:
    """Nodes are out: set aside by us, where those alone would do, else lost or cordoned."""
    aside = session.aside_gpus()
    enough = aside and width <= session.free + aside
    return ReasonCode.HEALTH_ASIDE if enough else ReasonCode.HEALTH_LOST
