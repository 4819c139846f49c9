"""What earlier runs of the same program needed.

People submit the same program again and again; how much work a run needed is the best guess of how
much the next one needs, and what a run has already done rules out those that ended before. The
store keeps the latest totals of each tenant and program and forgets the rest, so it stays as small
however long a cluster runs.
"""

from dataclasses import dataclass, field

import numpy as np

from weft.model.ids import TenantId
from weft.perf.total import Source, Total

LATEST = 32
PROGRAMS = 4096
FEWEST = 2

# The 90th percentile of Student's t with one less degree of freedom than there are runs.
STUDENT = {2: 3.078, 3: 1.886, 4: 1.638, 5: 1.533, 6: 1.476, 7: 1.440, 8: 1.415}


@dataclass(slots=True)
class WorkHistory:
    """The latest totals by tenant and program."""

    _totals: dict[tuple[TenantId, str], tuple[float, ...]] = field(default_factory=dict)

    def add(self, tenant: TenantId, program: str, total: float) -> None:
        """A run has finished after so much work; programs not run for longest are forgotten."""
        earlier = self._totals.pop((tenant, program), ())
        self._totals[tenant, program] = (*earlier, total)[-LATEST:]
        if len(self._totals) > PROGRAMS:
            del self._totals[next(iter(self._totals))]

    def totals(self, tenant: TenantId, program: str) -> tuple[float, ...]:
        """What its latest runs needed, oldest first; `program` is a fingerprint, "" is none."""
        return self._totals.get((tenant, program), ()) if program else ()

    def copied(self) -> "WorkHistory":
        return WorkHistory(dict(self._totals))


def total_like(earlier: tuple[float, ...], done: float = 0.0) -> Total | None:
    """From the totals of earlier runs beyond `done`; None where too few got so far.

    With nine runs or more the interval lies between the values that a further run falls below with
    a chance of a tenth and of nine tenths, whatever their distribution; with fewer it is Student's,
    on their logarithms.
    """
    beyond = np.sort(np.array([total for total in earlier if total > done], np.float64))
    if len(beyond) < FEWEST:
        return None
    likely = float(np.median(beyond))
    if len(beyond) in STUDENT:
        logs = np.log(beyond)
        spread = STUDENT[len(beyond)] * float(logs.std(ddof=1)) * (1 + 1 / len(beyond)) ** 0.5
        middle = float(np.exp(logs.mean()))
        low, high = middle * np.exp(-spread), middle * np.exp(spread)
    else:
        ranks = np.arange(1, len(beyond) + 1) / (len(beyond) + 1)
        low, high = np.interp([0.1, 0.9], ranks, beyond)
    return Total(max(float(low), done), likely, max(float(high), likely), Source.HISTORY)
