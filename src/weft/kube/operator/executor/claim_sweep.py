"""Takes claims of GPUs away that no job on record uses any more.

The last member of a party is not the one for which its claim was made, and an operator may die
between any two calls. So nobody's end removes a claim: now and then all of ours are listed, and
those go that no seat on record stands behind. The API server keeps one that a pod still uses.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Protocol

from weft.kube.claims import claim_name, claims_path
from weft.kube.client.api import Api
from weft.kube.client.errors import ApiError, NotFound
from weft.kube.devices import read_claim
from weft.kube.logs import Log
from weft.kube.names import JOB_LABEL
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.reading.paging import list_all

LOOK_SECONDS: Final = 5.0
HOLDING: Final = frozenset({"Starting", "Running", "Resizing", "Stopping"})

log = Log("claims")


class JobsOnRecord(Protocol):
    """What is known of jobs."""

    @property
    def observed_jobs(self) -> Mapping[str, ObservedJob]: ...


class ClaimSweep:
    """One look after the other; without a class of devices there is nothing to do."""

    def __init__(self, api: Api, jobs: JobsOnRecord, gpu_class: str) -> None:
        self._api, self._jobs, self._gpu_class = api, jobs, gpu_class

    async def run(self) -> None:
        if not self._gpu_class:
            await asyncio.Event().wait()
        while True:
            try:
                await self.look()
            except ApiError as error:
                log.warning("call_failed", error=str(error))
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Who stands behind a claim is asked after it was listed: what is made meanwhile stays."""
        listing = await list_all(self._api, claims_path(), {"labelSelector": JOB_LABEL})
        used = set(used_claims(self._jobs.observed_jobs))
        for raw in listing.items:
            about = raw["metadata"]
            is_used = (about["namespace"], about["name"]) in used
            if read_claim(raw).job and not is_used:
                await self._remove(about)

    async def _remove(self, about: Mapping[str, Any]) -> None:
        if "deletionTimestamp" in about:
            return
        try:
            await self._api.delete(claims_path(about["namespace"], about["name"]), uid=about["uid"])
        except NotFound:
            return
        log.info("claim_removed", claim=f"{about['namespace']}/{about['name']}")


def used_claims(jobs: Mapping[str, ObservedJob]) -> list[tuple[str, str]]:
    """Namespaces and names of those that seats on record use."""
    return [
        (job.namespace, claim_name(job.name, job.epoch, seat.number, job.party))
        for job in jobs.values()
        if job.state in HOLDING and job.placement is not None
        for seat in job.placement.seats
        if seat.gpus
    ]
