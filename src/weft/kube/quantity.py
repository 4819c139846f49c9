"""Kubernetes quantities (`96`, `1500m`, `512Gi`) as numbers.

Not those of the job file: a person writes `64GB`, an API server answers `62500000Ki`.
"""

from functools import lru_cache

GIB = 2.0**30
DECIMAL = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60}
SUFFIXES = {**DECIMAL, "P": 1e15, "E": 1e18, **BINARY}


@lru_cache(maxsize=4096)
def parse_quantity(text: str | int) -> float:
    """The number that stands there; what cannot be read counts as nothing."""
    written = str(text).strip()
    digits = written.rstrip("numkKMGTPEi")
    try:
        return float(digits) * SUFFIXES[written[len(digits) :]]
    except (ValueError, KeyError):
        return _scientific(written)


def _scientific(written: str) -> float:
    """`1e3` and `1E3` are legal too, and the E looks like a suffix."""
    try:
        return float(written)
    except ValueError:
        return 0.0


def gib(text: str | int) -> float:
    return parse_quantity(text) / GIB
