"""Amounts as a person writes them: `4..16` GPUs, `64GB` of memory, `10m` of time.

Each kind has one grammar, written as a pattern. The pattern is the whole truth about what may be
written: the job file, its JSON Schema and the cluster's own schema carry the same string, so none
of them accepts what another refuses. Ends of ranges are bounded by their digits alone.
"""

import math
import re
import reprlib
from dataclasses import dataclass
from typing import Final

from weft.model.errors import SpecError

MAX_GPUS: Final = 99_999

_GPUS: Final = "[1-9][0-9]{0,4}"
GPUS_PATTERN: Final = rf"^(0|{_GPUS}|{_GPUS}\.\.{_GPUS})$"

_PART: Final = r"(\.[0-9]{1,3})?"
MEMORY_PATTERN: Final = (
    rf"^([1-9][0-9]{{0,7}}{_PART}(MB|MiB|Mi)"
    rf"|[1-9][0-9]{{0,4}}{_PART}(GB|GiB|Gi)"
    rf"|[1-9][0-9]?{_PART}(TB|TiB|Ti))$"
)

MEMORY_WORDS: Final = (
    "a number from 1 with MB, GB, TB (powers of 1000) or MiB, GiB, TiB (of 1024), less than 100TB"
)

_TIME: Final = "([1-9][0-9]{0,2}d)?([1-9][0-9]{0,3}h)?([1-9][0-9]{0,4}m)?([1-9][0-9]{0,6}s)?"
DURATION_PATTERN: Final = f"^{_TIME}$"
DURATION_OR_ZERO_PATTERN: Final = f"^(0s|{_TIME})$"
SHORT_DURATION_PATTERN: Final = "^([1-9][0-9]?m)?([1-9][0-9]{0,2}s)?$"

_BYTES: Final = {
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_SECONDS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}

_MEMORY = re.compile(MEMORY_PATTERN[1:-1])
_DURATION = re.compile(DURATION_OR_ZERO_PATTERN[1:-1])
_RANGE = re.compile(GPUS_PATTERN[1:-1])
_COUNTED = re.compile(r"([0-9]+)([dhms])")


@dataclass(frozen=True, slots=True)
class Range:
    """From the fewest to the most; one number is a range of itself."""

    least: int
    most: int

    def __str__(self) -> str:
        return str(self.least) if self.least == self.most else f"{self.least}..{self.most}"


def gpu_range(written: int | str) -> Range:
    """`8` or `4..16`."""
    if isinstance(written, int) and not isinstance(written, bool) and 0 <= written <= MAX_GPUS:
        return Range(written, written)
    if not isinstance(written, str) or not _RANGE.fullmatch(written):
        raise SpecError(f"{_shown(written)} is no number of GPUs", hint="write 8, or 4..16")
    least, _, most = written.partition("..")
    found = Range(int(least), int(most or least))
    if found.least > found.most:
        raise SpecError(
            f"'{written}' begins above its end", hint=f"write {found.most}..{found.least}"
        )
    return found


def memory_gib(written: str) -> float:
    """`64GB` is 64 × 10⁹ bytes, `64GiB` (or `64Gi`) 64 × 2³⁰; the result is in GiB."""
    if not isinstance(written, str) or not _MEMORY.fullmatch(written):
        raise SpecError(f"{_shown(written)} is no amount of memory", hint="write 64GB or 64GiB")
    digits = written.rstrip("BGMTi")
    return float(digits) * _BYTES[written[len(digits) :]] / _BYTES["GiB"]


def memory_text(gib: float) -> str:
    """GiB as a person would write them; at least a MiB, rounded up to a whole one."""
    mebibytes = max(1, math.ceil(gib * 1024 - 1e-6))
    return f"{mebibytes}MiB" if mebibytes % 1024 else f"{mebibytes // 1024}GiB"


def duration_seconds(written: str) -> int:
    """`90s`, `10m`, `1h30m`, `7d`."""
    if not isinstance(written, str) or not written or not _DURATION.fullmatch(written):
        raise SpecError(f"{_shown(written)} is no duration", hint="write 90s, 10m, 1h30m or 7d")
    return sum(int(count) * _SECONDS[unit] for count, unit in _COUNTED.findall(written))


def duration_text(seconds: float) -> str:
    """Whole seconds in the largest units that divide them: 5400 is `1h30m`."""
    left = round(seconds)
    parts: list[str] = []
    for unit, size in _SECONDS.items():
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _shown(written: object) -> str:
    return reprlib.repr(written)
