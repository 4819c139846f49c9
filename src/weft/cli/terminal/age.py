"""Times as people read them in a list: how long ago, in two units at most."""

from datetime import UTC, datetime

SECONDS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
PLENTY = 10
OLD_SECONDS = 120.0


def now() -> datetime:
    return datetime.now(UTC)


def age(since: datetime | None, at: datetime) -> str:
    """`3h12m`; nothing where there is no time."""
    return "" if since is None else lasting((at - since).total_seconds())


def told_ago(told_at: datetime | None, at: datetime) -> str:
    """A line about what was told and not seen just now: how old it is, and whom to ask if old."""
    if told_at is None:
        return ""
    seconds = max(0.0, (at - told_at).total_seconds())
    hint = "; weft doctor tells whether an operator is at work" if seconds > OLD_SECONDS else ""
    return f"as of {lasting(seconds)} ago{hint}"


def lasting(seconds: float | None) -> str:
    """`45s`, `12m`, `3h12m`, `14d`: the second unit only where the first is small."""
    if seconds is None:
        return ""
    left = max(0, int(seconds))
    for place, (unit, size) in enumerate(SECONDS):
        if left < size:
            continue
        whole, rest = divmod(left, size)
        smaller, size_below = SECONDS[min(place + 1, len(SECONDS) - 1)]
        below = rest // size_below
        return f"{whole}{unit}" + (f"{below}{smaller}" if below and whole < PLENTY else "")
    return "0s"
