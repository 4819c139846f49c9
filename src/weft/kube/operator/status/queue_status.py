"""The status of queues, and the gauges that are sums over jobs and nodes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.brain.state.brain_state import BrainState
from weft.kube.client.api import Api
from weft.kube.client.cache import Cache
from weft.kube.client.errors import ApiError
from weft.kube.logs import Log
from weft.kube.names import queues_path
from weft.kube.operator.observation.queue import ObservedQueue
from weft.kube.operator.status.patches import stamp
from weft.model.ids import QueueId
from weft.model.state import State
from weft.policy.tenancy.quota import NO_LIMIT

log = Log("queues")


class QueueStatusWriter:
    """What each queue is promised and uses; `faults` are those that could not be taken in."""

    def __init__(self, api: Api, queues: Cache[ObservedQueue]) -> None:
        self.faults: dict[str, str] = {}
        self._api = api
        self._queues = queues

    async def write(self, state: BrainState, now: float) -> None:
        """Those whose status differs from what is on record."""
        sums = Sums.of(state)
        for name, queue in list(self._queues.items.items()):
            status = self._status(state, sums, queue, now)
            if _is_on_record(queue, status):
                continue
            try:
                path = f"{queues_path(name)}/status"
                self._queues.put(await self._api.patch(path, {"status": status}))
            except ApiError as error:
                log.warning("queue_not_written", queue=name, error=str(error))

    def _status(
        self, state: BrainState, sums: "Sums", queue: ObservedQueue, now: float
    ) -> dict[str, Any]:
        fault = self.faults.get(queue.name, "")
        row = state.queue_row.get(QueueId(queue.name))
        status: dict[str, Any] = {
            "observedGeneration": queue.generation,
            "conditions": [_ready(queue, fault, now)],
        }
        table = state.quota
        if row is None or row >= len(sums.used):
            return status
        if table.caps[row] < NO_LIMIT:
            status["limit"] = int(table.caps[row])
        return status | {
            "guaranteed": int(table.guaranteed[row]),
            "used": int(sums.used[row]),
            "waiting": sums.jobs[row, True],
            "running": sums.jobs[row, False],
        }


@dataclass(frozen=True, slots=True)
class Sums:
    """Over all queues, computed once for all of them: GPUs in use, and jobs by (row, waits)."""

    used: Sequence[float]
    jobs: Counter[tuple[int, bool]]

    @classmethod
    def of(cls, state: BrainState) -> "Sums":
        size, jobs = state.size, state.jobs
        active = jobs.active[:size]
        rows = jobs.queue[:size][active].tolist()
        waits = (jobs.state[:size][active] <= State.ADMITTED).tolist()
        used = state.quota.sums(state.own_use(held_only=True))
        return cls(used, Counter(zip(rows, waits, strict=True)))


def _ready(queue: ObservedQueue, fault: str, now: float) -> dict[str, Any]:
    status = "False" if fault else "True"
    before = next(iter(queue.status.get("conditions") or ()), None)
    since = before["lastTransitionTime"] if before and before["status"] == status else None
    return {
        "type": "Ready",
        "status": status,
        "reason": "Unusable" if fault else "InTheTree",
        "message": fault[:1000],
        "observedGeneration": queue.generation,
        "lastTransitionTime": since or stamp(float(int(now))).replace(".000000", ""),
    }


def _is_on_record(queue: ObservedQueue, status: dict[str, Any]) -> bool:
    return all(queue.status.get(name) == value for name, value in status.items())
