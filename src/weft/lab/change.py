"""A recipe against the first one, seed by seed, in few words: `−36 % ± 5`.

Every recipe sees the same workload and the same chances for a seed, so the differences say far more
than the means, whose intervals mostly tell how much one workload differs from another.
"""

from dataclasses import dataclass

from weft.lab.comparison import Metric, Row
from weft.lab.time_words import number, rough, scale_of, unit_for

UNCLEAR = "≈"


@dataclass(frozen=True, slots=True)
class Change:
    """How much more or less, and half the 95 % interval (empty with one seed).

    It is `clear` where the interval leaves no change out; nobody can say so of a single seed.
    """

    mean: str
    half: str
    clear: bool

    @property
    def text(self) -> str:
        if not self.half:
            return self.mean
        return f"{'' if self.clear else UNCLEAR + ' '}{self.mean} ± {self.half}"


NO_CHANGE = Change("–", "", clear=True)


def change(row: Row, first: Row, metric: Metric) -> Change:
    """As a share of the first recipe's, or as it is where that is zero."""
    if not row.ended or not first.ended:
        return NO_CHANGE
    ratio = row.ratio_to_first[metric.field]
    if ratio is not None:
        half = "" if ratio.half_width is None else f"{ratio.half_width * 100:,.0f}"
        clear = ratio.half_width is not None and abs(ratio.mean - 1.0) > ratio.half_width
        return Change(_signed(f"{(ratio.mean - 1.0) * 100:+,.0f} %"), half, clear)
    apart = row.versus_first[metric.field]
    unit = unit_for(apart.mean) if metric.unit == "s" else ""
    scale = scale_of(unit or metric.unit)
    sign = "+" if apart.mean > 0 else ""
    half = "" if apart.half_width is None else rough(apart.half_width / scale)
    return Change(
        _signed(f"{sign}{number(apart.mean / scale)} {unit}".strip()), half, apart.excludes_zero
    )


def _signed(text: str) -> str:
    """With a true minus, and without a sign before nothing."""
    return "0 %" if text in ("+0 %", "-0 %") else text.replace("-", "−")
