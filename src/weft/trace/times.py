"""Times as logs write them: seconds, spans with units, clocks of Slurm, dates of ISO 8601."""

import re
from datetime import UTC, datetime
from fractions import Fraction

from weft.trace.bounds import MOST_SECONDS
from weft.trace.units import ONE, scaled

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
LONG = {"sec": "s", "secs": "s", "second": "s", "seconds": "s", "min": "m", "mins": "m"}
LONG |= {"minute": "m", "minutes": "m", "hr": "h", "hrs": "h", "hour": "h", "hours": "h"}
LONG |= {"day": "d", "days": "d", "week": "w", "weeks": "w", "ms": "ms"}
CLOCK = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")
DAYS_HOURS_MINUTES = re.compile(r"(\d+)-(\d+):(\d+)")
SHORT_CLOCK = re.compile(r"\d+:\d+(?:\.\d+)?")
PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)\s*")
COMPACT_DATE = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")
DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]|$)")


def read_span(cell: str, unit: Fraction = ONE) -> float:
    """Seconds of `5400`, `90 min`, `1h30m`, `01:30:00` or Slurm's `1-02:03:04`.

    `unit` is what a number without a unit counts, in seconds.
    """
    return _bounded(_span(cell, unit))


def read_moment(cell: str, unit: Fraction = ONE) -> float:
    """Seconds since 1970 of a date; a number as it stands, counted in `unit`."""
    if not DATE.match(cell.strip()):
        return _bounded(scaled(_plain(cell), unit))
    try:
        moment = datetime.fromisoformat(cell.strip())
    except ValueError:
        raise ValueError("is no date") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def is_date(cell: str) -> bool:
    return DATE.match(cell.strip()) is not None


def is_zoned(cell: str) -> bool:
    """Whether a date states its time zone."""
    try:
        return datetime.fromisoformat(cell.strip()).tzinfo is not None
    except ValueError:
        return False


def is_compact_date(cell: str) -> bool:
    """Whether a number may be a date without separators: `20261117`."""
    return COMPACT_DATE.fullmatch(cell.strip()) is not None


def is_short_clock(cell: str) -> bool:
    """Whether a length has two parts, minutes and seconds: `02:30`."""
    return SHORT_CLOCK.fullmatch(cell.strip()) is not None


def _span(cell: str, unit: Fraction) -> float:
    text = cell.strip().lower()
    if coarse := DAYS_HOURS_MINUTES.fullmatch(text):  # Slurm writes no seconds here
        days, hours, minutes = (float(part) for part in coarse.groups())
        return days * 86_400 + hours * 3600 + minutes * 60
    if clock := CLOCK.fullmatch(text):
        days, hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        return days * 86_400 + hours * 3600 + minutes * 60 + seconds
    if (text and PART.fullmatch(text)) or (text and not PART.sub("", text)):
        return sum(float(amount) * _unit(unit) for amount, unit in PART.findall(text))
    return scaled(_plain(text), unit)


def _unit(unit: str) -> float:
    if unit == "ms":
        return 0.001
    seconds = UNITS.get(LONG.get(unit, unit))
    if seconds is None:
        raise ValueError(f"has the unit '{unit}', which is none of time")
    return seconds


def _plain(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("is not a number") from None
    if not 0 <= value < float("inf"):
        raise ValueError("is negative" if value < 0 else "is not a finite number")
    return value


def _bounded(seconds: float) -> float:
    if seconds > MOST_SECONDS:
        raise ValueError(f"is more than {MOST_SECONDS:,.0f} seconds; it may count milliseconds")
    return seconds
