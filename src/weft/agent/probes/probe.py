"""One probe, and what it finds."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a probe measured, and whether that is enough; `text` says what is wrong if it is not."""

    probe: str
    passed: bool
    value: float = 0.0
    unit: str = ""
    least: float = 0.0
    text: str = ""
    seconds: float = 0.0

    @property
    def words(self) -> str:
        """`disk 812 MB/s`, or what is wrong with it."""
        if self.text:
            return f"{self.probe}: {self.text}"
        return f"{self.probe} {self.value:,.4g} {self.unit}"


class Probe(Protocol):
    """Looks at one thing; raising an error is failing."""

    @property
    def name(self) -> str: ...

    def run(self) -> Result: ...


def measured(probe: str, value: float, unit: str, least: float) -> Result:
    """Enough or not."""
    slow = value < least
    text = f"{value:,.4g} {unit}, and {least:,.4g} are expected at least" if slow else ""
    return Result(probe=probe, passed=not slow, value=value, unit=unit, least=least, text=text)


def failed(probe: str, text: str) -> Result:
    return Result(probe=probe, passed=False, text=text)
