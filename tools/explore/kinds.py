"""The kinds of search: what one seed tries, and how a failure is written down as a test."""

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Final


@dataclass(frozen=True, slots=True)
class Found:
    """One failure: the seed that shows it, and how it ended."""

    kind: str
    seed: int
    error: Exception

    @property
    def title(self) -> str:
        first = (str(self.error) or "no message").splitlines()[0]
        return f"{type(self.error).__name__}: {first}"


@dataclass(frozen=True, slots=True)
class Kind:
    """A module of this package with `trial(seed)` and `reproducer(found, until)`."""

    name: str
    about: str
    #: A trial that lasts longer than this hangs.
    hang_seconds: float

    def trial(self, seed: int) -> None:
        """Try one seed; whatever it raises is a failure."""
        self._module.trial(seed)

    def reproducer(self, found: Found, until: float) -> str:
        """The source of a test that shows the failure, reduced as far as the time allows."""
        source: str = self._module.reproducer(found, until)
        return source

    @property
    def _module(self) -> ModuleType:
        return import_module(f"tools.explore.{self.name.replace('-', '_')}")


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("worlds", "simulated clusters with faults, every invariant checked", 300.0),
        Kind("histories", "the training protocol under lost messages and dying workers", 120.0),
        Kind("fuzz", "job files that are bent and torn", 120.0),
        Kind("mutants", "whether fresh worlds and histories notice each missing check", 900.0),
        Kind("properties", "the property-based tests, with examples of their own", 900.0),
        Kind("plan-cycles", "training processes that change plans while they are killed", 300.0),
        Kind("operator", "changes of queues and tenants, and an operator that stumbles", 120.0),
    )
}
