"""Times as people read them in a list: how long ago, in two units at most."""

from datetime import UTC, datetime

SECONDS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
PLENTY = 10


def now() -> datetime:
    return datetime.now(UTC)


def age(since: datetime | None, at: datetime) -> str:
    """`3h12m`; nothing where there is no time."""
    return "" if since is None else lasting((at - since).total_seconds())


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
