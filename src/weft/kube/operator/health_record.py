"""What is remembered of nodes and services, in a ConfigMap of the operator's own namespace.

Blame fades over weeks and a breaker outlives a leader, so whoever leads next has to find them. The
value is replaced when something changes; it is written soon after, packed, since it may tell of
thousands of failures. Where it may not be written, each leader begins anew.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from weft.failure.health import WELL, Health
from weft.kube.client.api import APPLY, Api
from weft.kube.client.backoff import Backoff
from weft.kube.client.errors import ApiError, NotFound
from weft.kube.health_map import HealthMap, health_in
from weft.kube.logs import Log

LOOK_SECONDS: Final = 0.5
MOST_PAUSE_SECONDS: Final = 60.0

log = Log("health")


class HealthRecord:
    """Reads it once, and writes it whenever it has become another."""

    def __init__(self, api: Api, place: HealthMap | None) -> None:
        self._api, self._place = api, place
        self._kept = WELL

    async def recalled(self) -> Health:
        """As the leader before left it."""
        if self._place is None:
            return WELL
        try:
            found = await self._api.get(self._place.path)
        except NotFound:
            return WELL
        except ApiError as error:
            log.warning("health_not_read", error=str(error))
            return WELL
        self._kept = health_in(found)
        return self._kept

    async def keep(self, newest: Callable[[], Health]) -> None:
        """Until cancelled; what cannot be written is tried again, ever later."""
        backoff = Backoff(Random(), first_seconds=1.0, most_seconds=MOST_PAUSE_SECONDS)
        while self._place is not None:
            pause = LOOK_SECONDS
            if (health := newest()) is not self._kept:
                try:
                    body = self._place.object(health)
                    await self._api.patch(
                        self._place.path, body, kind=APPLY, params={"force": "true"}
                    )
                    self._kept = health
                    backoff.reset()
                except ApiError as error:
                    log.warning("health_not_written", error=str(error))
                    pause = backoff.next_seconds(at_least=error.retry_after_seconds)
            await asyncio.sleep(pause)
        await asyncio.Event().wait()
