"""How much workers may ask of the operator: so often, so many at once, in bounded memory.

A worker that is told 429 may not listen (Kubeflow's SDK tries again at its next step), so a refusal
has to cost less than a report.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from weft.kube.reports.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the endpoint for reports. `refused` ones are for tokens that nobody vouches for.

    `hosts` are the names that it may be called by, beside bare addresses; None allows any.
    """

    reports_per_second: float = 10.0
    reports_at_once: int = 50
    refused_per_second: float = 1.0
    refused_at_once: int = 20
    concurrent: int = 512
    concurrent_per_namespace: int = 32
    connections: int = 4096
    connections_per_peer: int = 64
    connections_per_namespace: int = 1024
    body_seconds: float = 5.0
    idle_seconds: float = 30.0
    hosts: frozenset[str] | None = None


USUAL: Final = Limits()


class Rates:
    """A token bucket per key. The keys used longest ago are forgotten first, and start full."""

    def __init__(
        self,
        per_second: float,
        at_once: int,
        *,
        most_keys: int = 20_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_second = per_second
        self._at_once = float(at_once)
        self._most_keys = most_keys
        self._clock = clock
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: Hashable) -> None:
        """One more for this key, or a `Refusal` that says when."""
        left, now = self._left(key)
        self._keep(key, left - 1.0 if left >= 1.0 else left, now)
        if left < 1.0:
            raise Refusal(
                429,
                "too many requests",
                hint="Report less often: once in five seconds is enough.",
                retry_after_seconds=(1.0 - left) / self._per_second,
            )

    def give_back(self, key: Hashable) -> None:
        """The last one taken does not count after all."""
        left, now = self._left(key)
        self._keep(key, min(left + 1.0, self._at_once), now)

    def _left(self, key: Hashable) -> tuple[float, float]:
        now = self._clock()
        left, since = self._buckets.get(key, (self._at_once, now))
        return min(left + (now - since) * self._per_second, self._at_once), now

    def _keep(self, key: Hashable, left: float, now: float) -> None:
        self._buckets[key] = (left, now)
        self._buckets.move_to_end(key)
        while len(self._buckets) > self._most_keys:
            self._buckets.popitem(last=False)


class Crowd:
    """So many at once for each key, and no more."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._inside: Counter[str] = Counter()

    @contextmanager
    def one_more(self, key: str = "") -> Iterator[None]:
        if self._inside[key] >= self._most:
            raise Refusal(
                429,
                "too many requests at once",
                hint="Try again.",
                retry_after_seconds=RETRY_SECONDS,
            )
        self._inside[key] += 1
        try:
            yield
        finally:
            self._inside[key] -= 1
            if not self._inside[key]:
                del self._inside[key]


RETRY_SECONDS: Final = 1.0
