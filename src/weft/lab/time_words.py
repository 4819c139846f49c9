"""Numbers as a person would say them: seconds in the unit that fits, two or three digits."""

SECONDS_OF = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
TEN, HUNDRED = 10, 100
LARGEST = (("s", 120.0), ("min", 7200.0), ("h", 172_800.0))


def unit_for(seconds: float) -> str:
    """The unit in which this is a number of one to three digits."""
    return next((unit for unit, bound in LARGEST if abs(seconds) < bound), "d")


def scale_of(unit: str) -> float:
    """What to divide by to get a value in that unit; 1 where it is no unit of time or share."""
    return 0.01 if unit == "%" else SECONDS_OF.get(unit, 1.0)


def in_unit(seconds: float, unit: str) -> str:
    """A number of about three digits."""
    return number(seconds / SECONDS_OF[unit])


def number(value: float) -> str:
    """About three digits."""
    return f"{value:,.0f}" if abs(value) >= HUNDRED or value == 0 else f"{value:.3g}"


def rough(value: float) -> str:
    """Two digits: enough for the width of an interval."""
    return f"{value:,.0f}" if abs(value) >= TEN or value == 0 else f"{value:.2g}"


def span(seconds: float) -> str:
    """`41 min`, `5.2 h`."""
    unit = unit_for(seconds)
    return f"{in_unit(seconds, unit)} {unit}"
