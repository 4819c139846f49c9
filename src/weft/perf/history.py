"""What is remembered of the runs of a program: the latest of each, for the next one.

Programs are told apart by their tenant and a fingerprint. Those not run for longest are forgotten,
so a history stays as small however long a cluster runs.
"""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from weft.model.ids import TenantId

PROGRAMS = 4096

T = TypeVar("T")


@dataclass(slots=True)
class History(Generic[T]):
    """Of the `latest` runs of each program, one thing each; "" as program is none."""

    latest: int
    _runs: dict[tuple[TenantId, str], tuple[T, ...]] = field(default_factory=dict)

    def add(self, tenant: TenantId, program: str, run: T) -> None:
        if not program:
            return
        earlier = self._runs.pop((tenant, program), ())
        self._runs[tenant, program] = (*earlier, run)[-self.latest :]
        if len(self._runs) > PROGRAMS:
            del self._runs[next(iter(self._runs))]

    def of(self, tenant: TenantId, program: str) -> tuple[T, ...]:
        """Oldest first."""
        return self._runs.get((tenant, program), ())

    def copied(self) -> "History[T]":
        return History(self.latest, dict(self._runs))
