"""Rules that taint devices, asked for now and then: there are few, and they change seldom.

Where the API server knows of none, what drivers publish is all there is; that is said once, and
asked again after a while, since the server may come to know them.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from weft.kube.client.api import Api
from weft.kube.client.errors import ApiError, Forbidden
from weft.kube.logs import Log
from weft.kube.taint_rules import VERSIONS, TaintRule, served_rules

EVERY_SECONDS: Final = 5.0
ASK_AGAIN_SECONDS: Final = 300.0

log = Log("taints")


class TaintRules:
    """Follows them for the driver that counts."""

    def __init__(self, api: Api, gpu_class: str) -> None:
        self._api, self._gpu_class = api, gpu_class
        self._version: str | None = None

    async def follow(self, changed: Callable[[tuple[TaintRule, ...]], None]) -> None:
        """Until cancelled."""
        known: tuple[TaintRule, ...] = ()
        while True:
            pause = EVERY_SECONDS
            try:
                found = await self._listed()
                if found is None:
                    log.info("taint_rules_not_served")
                    pause = ASK_AGAIN_SECONDS
                if (found or ()) != known:
                    known = found or ()
                    changed(known)
            except ApiError as error:
                log.warning("taint_rules_not_read", error=str(error))
            await asyncio.sleep(pause)

    async def _listed(self) -> tuple[TaintRule, ...] | None:
        """None where they are not served, or not for us."""
        versions = (self._version,) if self._version else VERSIONS
        self._version = None
        try:
            found = await served_rules(self._api, self._gpu_class, versions)
        except Forbidden:
            return None
        if found is None:
            return None
        self._version = found.version
        return found.rules
